import java.io.*;
import java.nio.file.*;
import java.security.KeyPair;
import java.time.Duration;
import java.util.*;
import org.apache.sshd.client.SshClient;
import org.apache.sshd.client.channel.*;
import org.apache.sshd.client.keyverifier.*;
import org.apache.sshd.client.session.ClientSession;
import org.apache.sshd.client.session.forward.ExplicitPortForwardingTracker;
import org.apache.sshd.common.SshConstants;
import org.apache.sshd.common.keyprovider.FileKeyPairProvider;
import org.apache.sshd.common.util.net.SshdSocketAddress;
import org.apache.sshd.scp.client.*;
import org.apache.sshd.sftp.client.*;
import org.apache.sshd.sftp.client.fs.SftpFileSystem;
import java.net.*;

/** Apache MINA SSHD as a client: known_hosts, three kinds of keys, commands, files, forwarded connections, a rekey. */
public class MinaClient {
    static void check(boolean holds, String what) {
        if (!holds) throw new IllegalStateException(what);
    }

    public static void main(String[] args) throws Exception {
        String folder = System.getenv("T_DIR");
        byte[] data = Files.readAllBytes(Path.of(folder, "data"));
        SshClient client = SshClient.setUpDefaultClient();
        client.setServerKeyVerifier(new KnownHostsServerKeyVerifier(
                RejectAllServerKeyVerifier.INSTANCE, Path.of(System.getenv("T_KNOWN_HOSTS"))));
        client.setKeyIdentityProvider(org.apache.sshd.common.keyprovider.KeyIdentityProvider.EMPTY_KEYS_PROVIDER);
        client.setForwardingFilter(org.apache.sshd.server.forward.AcceptAllForwardingFilter.INSTANCE);
        client.start();
        for (String key : new String[] {"T_KEY", "T_RSA_KEY", "T_ECDSA_KEY"}) {
            try (ClientSession session = client.connect(System.getenv("T_USER"), "127.0.0.1", Integer.parseInt(System.getenv("T_PORT")))
                    .verify(Duration.ofSeconds(60)).getSession()) {
                for (KeyPair pair : new FileKeyPairProvider(Path.of(System.getenv(key))).loadKeys(session)) session.addPublicKeyIdentity(pair);
                session.auth().verify(Duration.ofSeconds(60));
                ByteArrayOutputStream output = new ByteArrayOutputStream(), error = new ByteArrayOutputStream();
                try (ChannelExec channel = session.createExecChannel("cat; echo to-error >&2; exit 7")) {
                    channel.setIn(new ByteArrayInputStream(data));
                    channel.setOut(output);
                    channel.setErr(error);
                    channel.open().verify(Duration.ofSeconds(60));
                    channel.waitFor(EnumSet.of(ClientChannelEvent.CLOSED), Duration.ofSeconds(60));
                    check(Arrays.equals(output.toByteArray(), data), "echo");
                    check(error.toString().equals("to-error\n") && channel.getExitStatus() == 7, "status " + channel.getExitStatus() + error);
                }
                output.reset();
                try (ChannelShell channel = session.createShellChannel()) {
                    channel.setPtyType("vt100");
                    channel.setPtyColumns(90);
                    channel.setPtyLines(30);
                    channel.setIn(new ByteArrayInputStream("stty size; echo a$((6*7))b; exit 3\n".getBytes()));
                    channel.setOut(output);
                    channel.open().verify(Duration.ofSeconds(60));
                    channel.waitFor(EnumSet.of(ClientChannelEvent.CLOSED), Duration.ofSeconds(60));
                    String said = output.toString();
                    check(said.contains("30 90") && said.contains("a42b") && channel.getExitStatus() == 3, said);
                }
                try (SftpClient sftp = SftpClientFactory.instance().createSftpClient(session)) {
                    try (OutputStream to = sftp.write(folder + "/by-mina")) { to.write(data); }
                    try (InputStream from = sftp.read(folder + "/by-mina")) { check(Arrays.equals(from.readAllBytes(), data), "the file back"); }
                    int names = 0;
                    for (SftpClient.DirEntry entry : sftp.readDir(folder + "/tree")) names++;
                    check(names == 22, "names " + names);
                    sftp.rename(folder + "/by-mina", folder + "/renamed-" + key);
                    sftp.symLink(folder + "/link-" + key, folder + "/data");
                    check(Files.readSymbolicLink(Path.of(folder, "link-" + key)).equals(Path.of(folder, "data")), "link");
                    check(sftp.stat(folder + "/renamed-" + key).getSize() == data.length, "size");
                }
                try (SftpFileSystem files = SftpClientFactory.instance().createSftpFileSystem(session)) {
                    Files.copy(files.getPath(folder, "data"), files.getPath(folder, "copy"), StandardCopyOption.REPLACE_EXISTING);
                    check(Files.size(files.getPath(folder, "copy")) == data.length, "the copy");
                    files.getFileStores().iterator().next().getUsableSpace();
                }
                ScpClient scp = ScpClientCreator.instance().createScpClient(session);
                scp.upload(folder + "/data", folder + "/by-scp");
                check(Arrays.equals(scp.downloadBytes(folder + "/by-scp"), data), "the file by scp");
                try (ServerSocket greeter = new ServerSocket(0, 5, InetAddress.getLoopbackAddress())) {
                    Thread thread = new Thread(() -> {
                        try {
                            while (true) try (Socket socket = greeter.accept()) { socket.getOutputStream().write("hello\n".getBytes()); }
                        } catch (IOException closed) { }
                    });
                    thread.setDaemon(true);
                    thread.start();
                    SshdSocketAddress target = new SshdSocketAddress("127.0.0.1", greeter.getLocalPort());
                    try (ExplicitPortForwardingTracker here = session.createLocalPortForwardingTracker(0, target)) {
                        try (Socket socket = new Socket("127.0.0.1", here.getBoundAddress().getPort())) {
                            check(new String(socket.getInputStream().readNBytes(6)).equals("hello\n"), "-L");
                        }
                    }
                    try (ExplicitPortForwardingTracker there = session.createRemotePortForwardingTracker(new SshdSocketAddress("127.0.0.1", 0), target)) {
                        try (Socket socket = new Socket("127.0.0.1", there.getBoundAddress().getPort())) {
                            check(new String(socket.getInputStream().readNBytes(6)).equals("hello\n"), "-R");
                        }
                    }
                }
                session.reExchangeKeys().verify(Duration.ofSeconds(60));
                check(session.executeRemoteCommand("echo after").equals("after\n"), "after the rekey");
            }
        }
        client.stop();
    }
}

import java.io.*;
import java.net.*;
import java.nio.file.*;
import java.util.*;
import java.util.concurrent.TimeUnit;
import net.schmizz.sshj.SSHClient;
import net.schmizz.sshj.connection.channel.direct.*;
import net.schmizz.sshj.sftp.*;

/** SSHJ as a client: known_hosts, three kinds of keys, commands, files, a forwarded connection. */
public class SshjClient {
    static void check(boolean holds, String what) {
        if (!holds) throw new IllegalStateException(what);
    }

    public static void main(String[] args) throws Exception {
        String folder = System.getenv("T_DIR");
        byte[] data = Files.readAllBytes(Path.of(folder, "data"));
        for (String key : new String[] {"T_KEY", "T_RSA_KEY", "T_ECDSA_KEY"}) {
            try (SSHClient client = new SSHClient()) {
                client.loadKnownHosts(new File(System.getenv("T_KNOWN_HOSTS")));
                client.useCompression();
                client.connect("127.0.0.1", Integer.parseInt(System.getenv("T_PORT")));
                client.getConnection().getKeepAlive().setKeepAliveInterval(1);
                client.authPublickey(System.getenv("T_USER"), System.getenv(key));
                try (Session session = client.startSession()) {
                    Session.Command command = session.exec("cat; echo to-error >&2; exit 7");
                    Thread writer = new Thread(() -> {
                        try (OutputStream input = command.getOutputStream()) { input.write(data); } catch (IOException gone) { }
                    });
                    writer.start();
                    check(Arrays.equals(command.getInputStream().readAllBytes(), data), "echo");
                    check(new String(command.getErrorStream().readAllBytes()).equals("to-error\n"), "standard error");
                    command.join(60, TimeUnit.SECONDS);
                    check(command.getExitStatus() == 7, "status");
                }
                try (Session session = client.startSession()) {
                    session.allocateDefaultPTY();
                    Session.Command command = session.exec("tty");
                    check(new String(command.getInputStream().readAllBytes()).contains("/dev/pts/"), "terminal");
                }
                try (SFTPClient sftp = client.newSFTPClient()) {
                    sftp.put(folder + "/data", folder + "/by-sshj");
                    sftp.get(folder + "/by-sshj", folder + "/back");
                    check(Arrays.equals(Files.readAllBytes(Path.of(folder, "back")), data), "the file back");
                    sftp.put(folder + "/tree", folder + "/copy");
                    check(sftp.ls(folder + "/copy").size() == 20, "ls");
                    sftp.rename(folder + "/by-sshj", folder + "/renamed", EnumSet.of(RenameFlags.OVERWRITE, RenameFlags.ATOMIC));
                    sftp.chmod(folder + "/renamed", 0600);
                    check((sftp.stat(folder + "/renamed").getMode().getPermissionsMask() & 0777) == 0600, "mode");
                    for (RemoteResourceInfo entry : sftp.ls(folder + "/copy")) sftp.rm(entry.getPath());
                    sftp.rmdir(folder + "/copy");
                }
                client.newSCPFileTransfer().upload(folder + "/data", folder + "/by-scp");
                client.newSCPFileTransfer().download(folder + "/by-scp", folder + "/by-scp-back");
                check(Arrays.equals(Files.readAllBytes(Path.of(folder, "by-scp-back")), data), "the file by scp");
                try (ServerSocket greeter = new ServerSocket(0, 5, InetAddress.getLoopbackAddress())) {
                    new Thread(() -> {
                        try (Socket socket = greeter.accept()) { socket.getOutputStream().write("hello\n".getBytes()); } catch (IOException gone) { }
                    }).start();
                    try (DirectConnection connection = client.newDirectConnection("127.0.0.1", greeter.getLocalPort())) {
                        check(new String(connection.getInputStream().readNBytes(6)).equals("hello\n"), "direct-tcpip");
                    }
                }
            }
        }
    }
}

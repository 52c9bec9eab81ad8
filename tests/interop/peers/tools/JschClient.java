import com.jcraft.jsch.*;
import java.io.*;
import java.net.*;
import java.nio.file.*;
import java.util.*;

/** JSch as a client: a host key check, a command, a shell at a terminal, files, forwarded ports both ways. */
public class JschClient {
    static final String FOLDER = System.getenv("T_DIR");

    static void check(boolean holds, String what) {
        if (!holds) throw new IllegalStateException(what);
    }

    static String readAll(InputStream from) throws IOException {
        return new String(from.readAllBytes());
    }

    static void waitFor(Channel channel) throws Exception {
        for (int turn = 0; turn < 3000 && !channel.isClosed(); turn++) Thread.sleep(10);
        check(channel.isClosed(), "the channel stays open");
    }

    public static void main(String[] args) throws Exception {
        boolean old = JSch.VERSION.startsWith("0.1.");
        String[] keys = old ? new String[] {"T_ECDSA_KEY"} : new String[] {"T_KEY", "T_RSA_KEY", "T_ECDSA_KEY"};
        for (String key : keys) run(System.getenv(key), old);
    }

    static void run(String key, boolean old) throws Exception {
        JSch jsch = new JSch();
        jsch.addIdentity(key);
        jsch.setKnownHosts(System.getenv("T_KNOWN_HOSTS"));
        Session session = jsch.getSession(System.getenv("T_USER"), "127.0.0.1", Integer.parseInt(System.getenv("T_PORT")));
        session.setConfig("StrictHostKeyChecking", "yes");
        if (old) session.setConfig("server_host_key", "ecdsa-sha2-nistp256");
        session.setServerAliveInterval(200);
        session.connect(60_000);

        ChannelExec exec = (ChannelExec) session.openChannel("exec");
        exec.setCommand("cat; echo to-error >&2; exit 7");
        ByteArrayOutputStream error = new ByteArrayOutputStream();
        exec.setErrStream(error);
        byte[] data = Files.readAllBytes(Path.of(FOLDER, "data"));
        exec.setInputStream(new ByteArrayInputStream(data));
        InputStream output = exec.getInputStream();
        exec.connect();
        check(Arrays.equals(output.readAllBytes(), data), "echo");
        waitFor(exec);
        check(exec.getExitStatus() == 7 && error.toString().equals("to-error\n"), "status " + exec.getExitStatus() + error);

        ChannelShell shell = (ChannelShell) session.openChannel("shell");
        shell.setPtyType("vt100", 90, 30, 0, 0);
        shell.setInputStream(new ByteArrayInputStream("stty size; echo a$((6*7))b; exit 3\n".getBytes()));
        output = shell.getInputStream();
        shell.connect();
        String said = readAll(output);
        check(said.contains("30 90") && said.contains("a42b"), said);
        waitFor(shell);
        check(shell.getExitStatus() == 3, "status of the shell");

        ChannelSftp sftp = (ChannelSftp) session.openChannel("sftp");
        sftp.connect();
        sftp.put(FOLDER + "/data", FOLDER + "/by-jsch");
        sftp.get(FOLDER + "/by-jsch", FOLDER + "/back");
        check(Arrays.equals(Files.readAllBytes(Path.of(FOLDER, "back")), data), "the file back");
        // Names that the server resolves, and a resumed upload.
        sftp.cd(FOLDER + "/tree");
        check(sftp.pwd().equals(FOLDER + "/tree"), sftp.pwd());
        check(sftp.ls("*").size() == 20 && sftp.ls("1?").size() == 10, "ls");
        Files.write(Path.of(FOLDER, "part"), Arrays.copyOf(data, 100_000));
        sftp.put(FOLDER + "/data", FOLDER + "/part", ChannelSftp.RESUME);
        check(Arrays.equals(Files.readAllBytes(Path.of(FOLDER, "part")), data), "the resumed file");
        sftp.rename(FOLDER + "/by-jsch", FOLDER + "/part");
        sftp.chmod(0600, FOLDER + "/part");
        sftp.setMtime(FOLDER + "/part", 981173106);
        SftpATTRS attributes = sftp.stat(FOLDER + "/part");
        check(attributes.getMTime() == 981173106 && (attributes.getPermissions() & 0777) == 0600, attributes.toString());
        sftp.mkdir(FOLDER + "/folder");
        sftp.symlink(FOLDER + "/part", FOLDER + "/folder/link");
        check(Files.readSymbolicLink(Path.of(FOLDER, "folder/link")).equals(Path.of(FOLDER, "part")), "the link's direction");
        check(sftp.readlink(FOLDER + "/folder/link").equals(FOLDER + "/part"), "link");
        sftp.rm(FOLDER + "/folder/link");
        sftp.rmdir(FOLDER + "/folder");
        sftp.disconnect();

        try (ServerSocket greeter = new ServerSocket(0, 5, InetAddress.getLoopbackAddress())) {
            Thread thread = new Thread(() -> {
                try {
                    while (true) try (Socket socket = greeter.accept()) { socket.getOutputStream().write("hello\n".getBytes()); }
                } catch (IOException closed) { }
            });
            thread.setDaemon(true);
            thread.start();
            int here = session.setPortForwardingL("127.0.0.1", 0, "127.0.0.1", greeter.getLocalPort());
            try (Socket socket = new Socket("127.0.0.1", here)) { check(readAll(socket.getInputStream()).equals("hello\n"), "-L"); }
            int there;
            try (ServerSocket free = new ServerSocket(0)) { there = free.getLocalPort(); }
            session.setPortForwardingR("127.0.0.1", there, "127.0.0.1", greeter.getLocalPort());
            try (Socket socket = new Socket("127.0.0.1", there)) { check(readAll(socket.getInputStream()).equals("hello\n"), "-R"); }
            session.delPortForwardingR(there);
            session.delPortForwardingL("127.0.0.1", here);
        }
        session.rekey();
        Thread.sleep(500);
        check(session.isConnected(), "after the rekey");
        session.disconnect();
    }
}

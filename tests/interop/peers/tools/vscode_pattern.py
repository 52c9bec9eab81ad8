"""The commands that the Remote-SSH extension of VS Code runs, without VS Code: its logs show them.

`ssh -T -D PORT HOST bash`, and `ssh -v -T -D PORT -o ConnectTimeout=15 HOST` without a command, read a script that starts a
server there, or finds it, and prints its port between lines with an identifier. The editor's connections then go through
the SOCKS proxy at PORT, many at once, while the script's ssh runs on.
"""

import os
import signal
import socket
import subprocess
import sys
import threading

HOST, FOLDER = os.environ["T_HOST"], os.environ["T_DIR"]
PORTS = os.environ["T_FREE_PORTS"].split()
LIMIT = 100

SERVER = """
import socket, threading
listener = socket.create_server(("127.0.0.1", 0))
open("port.new", "w").write(str(listener.getsockname()[1]))
import os
os.rename("port.new", "port")
def serve(stream):
    while data := stream.recv(65536):
        stream.sendall(data)
    stream.close()
while True:
    threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
"""

# The extension's script does the same: a lock, a search for a running server, its start without the terminal's signals, a
# wait for its port, a block of values.
SCRIPT = f"""
echo "0e21d0e5a3e0: running"
cd "{FOLDER}"
if [ -f pid ] && kill -0 "$(cat pid)" 2>/dev/null; then
    echo found running server
else
    python3 server.py >server.log 2>&1 </dev/null &
    echo $! >pid
    disown
fi
while [ ! -s port ]; do sleep 0.1; done
echo "0e21d0e5a3e0: start"
echo "listeningOn==$(cat port)=="
echo "osReleaseId==debian=="
echo "0e21d0e5a3e0: end"
"""


class Resolver:
    """One run of ssh with the script."""

    def __init__(self, port, before, after):
        self.port = int(port)
        words = ["ssh", *before, "-T", "-D", str(self.port), *after]
        self.ssh = subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=open(f"{FOLDER}/ssh.log", "ab"), start_new_session=True
        )
        self.ssh.stdin.write(SCRIPT.encode())
        self.ssh.stdin.flush()
        timer = threading.Timer(LIMIT, self.ssh.kill)
        timer.start()
        self.said, self.there = [], None
        for line in self.ssh.stdout:
            line = line.decode().strip()
            self.said.append(line)
            if line.startswith("listeningOn=="):
                self.there = int(line.split("==")[1])
            if line.endswith(": end"):
                break
        timer.cancel()
        if self.there is None:
            sys.exit(f"no port in {self.said}: {open(f'{FOLDER}/ssh.log').read()}")

    def connect(self):
        """A connection to the server there through the proxy (RFC 1928)."""
        stream = socket.create_connection(("127.0.0.1", self.port), LIMIT)
        stream.sendall(b"\5\1\0")
        assert self.exactly(stream, 2) == b"\5\0"
        name = b"localhost" if self.there % 2 else b"127.0.0.1"
        stream.sendall(b"\5\1\0\3" + bytes([len(name)]) + name + self.there.to_bytes(2, "big"))
        reply = self.exactly(stream, 10)
        assert reply[:2] == b"\5\0", reply
        return stream

    @staticmethod
    def exactly(stream, count):
        data = b""
        while len(data) < count:
            part = stream.recv(count - len(data))
            assert part, f"only {data!r}"
            data += part
        return data

    def works(self):
        """Eight connections at once, each with its own data."""
        streams = [self.connect() for _ in range(8)]
        for number, stream in enumerate(streams):
            stream.sendall(bytes([number]) * 60_000)
        for number, stream in enumerate(streams):
            assert self.exactly(stream, 60_000) == bytes([number]) * 60_000
        for stream in streams:
            stream.close()

    def end(self):
        self.ssh.send_signal(signal.SIGTERM)
        self.ssh.wait(LIMIT)


with open(f"{FOLDER}/server.py", "w") as file:
    file.write(SERVER)
try:
    first = Resolver(PORTS[0], [], [HOST, "bash"])
    assert "found running server" not in first.said
    first.works()
    # A second window finds the server of the first one, and the first one goes.
    second = Resolver(PORTS[1], ["-v"], ["-o", "ConnectTimeout=15", HOST])
    assert "found running server" in second.said, second.said
    assert second.there == first.there
    first.end()
    second.works()
    second.end()
finally:
    if os.path.exists(f"{FOLDER}/pid"):
        os.kill(int(open(f"{FOLDER}/pid").read()), signal.SIGKILL)

"""Fabric 3: a command, a failing one, a terminal, input, files, a forwarded port."""

import io
import os
import socket
import threading
import time

import fabric

FOLDER = os.environ["T_DIR"]
connection = fabric.Connection(
    "127.0.0.1",
    user=os.environ["T_USER"],
    port=int(os.environ["T_PORT"]),
    connect_kwargs={"key_filename": os.environ["T_KEY"], "allow_agent": False, "look_for_keys": False},
)
assert connection.run("echo said", hide=True).stdout == "said\n"
assert connection.run("exit 7", warn=True, hide=True, in_stream=False).exited == 7
assert "/dev/pts" in connection.run("tty", pty=True, hide=True, in_stream=False).stdout
assert connection.run("cat", in_stream=io.StringIO("typed\n"), hide=True).stdout == "typed\n"
connection.put(f"{FOLDER}/data", f"{FOLDER}/by-fabric")
connection.get(f"{FOLDER}/by-fabric", f"{FOLDER}/back")
assert open(f"{FOLDER}/back", "rb").read() == open(f"{FOLDER}/data", "rb").read()
listener = socket.create_server(("127.0.0.1", 0))


def greet():
    accepted, _ = listener.accept()
    accepted.sendall(b"hello\n")
    accepted.close()


threading.Thread(target=greet, daemon=True).start()
with socket.create_server(("127.0.0.1", 0)) as probe:
    port = probe.getsockname()[1]
with connection.forward_local(port, remote_port=listener.getsockname()[1], remote_host="127.0.0.1"):
    # It listens in a thread that may have just begun.
    for _ in range(200):
        try:
            client = socket.create_connection(("127.0.0.1", port))
            break
        except ConnectionRefusedError:
            time.sleep(0.05)
    with client:
        assert client.recv(100) == b"hello\n"
connection.close()

"""libssh2 as a client, by the module ssh2-python: host key, two logins, commands, files, a forwarded connection."""

import hashlib
import os
import socket
import threading

from ssh2.exceptions import AuthenticationError
from ssh2.session import Session
from ssh2.sftp import LIBSSH2_FXF_CREAT, LIBSSH2_FXF_READ, LIBSSH2_FXF_TRUNC, LIBSSH2_FXF_WRITE

PORT = int(os.environ["T_PORT"])
USER = os.environ["T_USER"]
FOLDER = os.environ["T_DIR"]
DATA = open(f"{FOLDER}/data", "rb").read()


def session():
    connection = socket.create_connection(("127.0.0.1", PORT))
    made = Session()
    made.handshake(connection)
    return made, connection


def read_all(channel, which="read"):
    data = b""
    while True:
        size, part = getattr(channel, which)()
        if size <= 0:
            return data
        data += part


for key in ("T_KEY", "T_RSA_KEY", "T_ECDSA_KEY"):
    made, kept = session()
    made.userauth_publickey_fromfile(USER, os.environ[key])
    channel = made.open_session()
    channel.execute("cat; echo to-error >&2; exit 7")
    channel.write(b"x" * 100_000)
    channel.send_eof()
    assert read_all(channel) == b"x" * 100_000
    assert read_all(channel, "read_stderr") == b"to-error\n"
    channel.wait_eof()
    channel.close()
    channel.wait_closed()
    assert channel.get_exit_status() == 7

made, kept = session()
assert "publickey" in made.userauth_list(USER)
try:
    made.userauth_password(USER, "wrong")
    raise SystemExit("a wrong password")
except AuthenticationError:
    pass
made.userauth_publickey_fromfile(USER, os.environ["T_KEY"])

channel = made.open_session()
channel.pty("vt100")
channel.shell()
channel.write(b"echo a$((6*7))b $TERM; exit 3\n")
said = read_all(channel)
assert b"a42b vt100" in said, said
channel.wait_eof()
channel.close()
channel.wait_closed()
assert channel.get_exit_status() == 3

sftp = made.sftp_init()
flags = LIBSSH2_FXF_CREAT | LIBSSH2_FXF_WRITE | LIBSSH2_FXF_TRUNC
with sftp.open(f"{FOLDER}/by-libssh2", flags, 0o644) as file:
    file.write(DATA)
with sftp.open(f"{FOLDER}/by-libssh2", LIBSSH2_FXF_READ, 0) as file:
    read = b"".join(part for size, part in file if size > 0)
assert hashlib.sha256(read).digest() == hashlib.sha256(DATA).digest()
with sftp.opendir(f"{FOLDER}/tree") as folder:
    names = {name.decode() for size, name, _ in folder.readdir()}
assert names == {".", "..", *os.listdir(f"{FOLDER}/tree")}, names
sftp.rename(f"{FOLDER}/by-libssh2", f"{FOLDER}/renamed")
assert sftp.stat(f"{FOLDER}/renamed").filesize == len(DATA)
sftp.symlink(f"{FOLDER}/renamed", f"{FOLDER}/link")
assert os.readlink(f"{FOLDER}/link") == f"{FOLDER}/renamed"
assert sftp.realpath(f"{FOLDER}/./link")
sftp.unlink(f"{FOLDER}/link")

channel, _ = made.scp_recv2(f"{FOLDER}/data")
read = b""
while len(read) < len(DATA):
    size, part = channel.read(len(DATA) - len(read))
    assert size > 0
    read += part
assert read == DATA
channel = made.scp_send64(f"{FOLDER}/by-scp", 0o644, len(DATA), 0, 0)
channel.write(DATA)
channel.send_eof()
channel.wait_eof()
channel.close()
channel.wait_closed()
assert open(f"{FOLDER}/by-scp", "rb").read() == DATA

listener = socket.create_server(("127.0.0.1", 0))


def greet():
    connection, _ = listener.accept()
    connection.sendall(b"hello\n")
    connection.close()


threading.Thread(target=greet, daemon=True).start()
channel = made.direct_tcpip("127.0.0.1", listener.getsockname()[1])
assert read_all(channel) == b"hello\n"
channel.close()
made.disconnect()

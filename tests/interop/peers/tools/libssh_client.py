"""libssh as a client, by the module ssh-python: logins, commands, files."""

import os

from ssh import options
from ssh.key import import_privkey_file
from ssh.session import Session

FOLDER = os.environ["T_DIR"]
DATA = open(f"{FOLDER}/data", "rb").read()


def login(key):
    made = Session()
    made.options_set(options.HOST, "127.0.0.1")
    made.options_set(options.USER, os.environ["T_USER"])
    made.options_set_port(int(os.environ["T_PORT"]))
    made.connect()
    made.userauth_publickey(import_privkey_file(os.environ[key]))
    return made


def read_all(channel, is_stderr=False):
    data = b""
    while True:
        size, part = channel.read(is_stderr=is_stderr)
        if size <= 0:
            return data
        data += part


for key in ("T_KEY", "T_RSA_KEY", "T_ECDSA_KEY"):
    made = login(key)
    channel = made.channel_new()
    channel.open_session()
    channel.request_exec("cat; echo to-error >&2; exit 7")
    channel.write(b"x" * 30_000)
    channel.send_eof()
    assert read_all(channel) == b"x" * 30_000
    assert read_all(channel, True) == b"to-error\n"
    channel.close()
    assert channel.get_exit_status() == 7
    made.disconnect()

made = login("T_KEY")
channel = made.channel_new()
channel.open_session()
channel.request_pty()
channel.request_shell()
channel.write(b"echo a$((6*7))b; exit 3\n")
said = read_all(channel)
assert b"a42b" in said, said
channel.close()

sftp = made.sftp_new()
sftp.init()
with sftp.open(f"{FOLDER}/by-libssh", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644) as file:
    for start in range(0, len(DATA), 30_000):
        file.write(DATA[start : start + 30_000])
with sftp.open(f"{FOLDER}/by-libssh", os.O_RDONLY, 0) as file:
    read = b""
    while True:
        size, part = file.read(32_000)
        if size <= 0:
            break
        read += part
assert read == DATA
with sftp.opendir(f"{FOLDER}/tree") as folder:
    names = {entry.name.decode() if isinstance(entry.name, bytes) else entry.name for entry in folder}
assert names == {".", "..", *os.listdir(f"{FOLDER}/tree")}, names
sftp.symlink("data", f"{FOLDER}/link")
assert os.readlink(f"{FOLDER}/link") == "data"
sftp.rename(f"{FOLDER}/by-libssh", f"{FOLDER}/renamed")
assert sftp.stat(f"{FOLDER}/renamed").size == len(DATA)
sftp.mkdir(f"{FOLDER}/folder", 0o755)
sftp.rmdir(f"{FOLDER}/folder")
made.disconnect()

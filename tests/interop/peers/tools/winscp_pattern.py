"""The SFTP requests of WinSCP, as its documentation and its session logs describe them, over paramiko's transport.

INIT names version 6; the server's answer is the highest version that it has. Then REALPATH of ".", an OPENDIR with
READDIR requests until the end, an upload to a name with ".filepart" with several WRITE requests under way, FSETSTAT of times and
permissions, a rename over the target, a download with several READ requests under way past the end, and a second
channel for a shell in which each command is followed by an echo of its status.
"""

import os
import struct

import paramiko

FOLDER = os.environ["T_DIR"]
DATA = open(f"{FOLDER}/data", "rb").read()
INIT, VERSION, OPEN, CLOSE, READ, WRITE, LSTAT, FSETSTAT, SETSTAT, OPENDIR, READDIR, REMOVE, REALPATH, STAT, RENAME = (
    1, 2, 3, 4, 5, 6, 7, 10, 9, 11, 12, 13, 16, 17, 18,
)
STATUS, HANDLE, CONTENTS, NAME, ATTRS, EXTENDED, EXTENDED_REPLY = 101, 102, 103, 104, 105, 200, 201
OK, EOF, NO_SUCH_FILE, FAILURE = 0, 1, 2, 4


def text(value):
    value = value.encode() if isinstance(value, str) else value
    return struct.pack(">I", len(value)) + value


transport = paramiko.Transport(("127.0.0.1", int(os.environ["T_PORT"])))
key = paramiko.Ed25519Key.from_private_key_file(os.environ["T_KEY"])
transport.connect(username=os.environ["T_USER"], pkey=key)
channel = transport.open_session()
channel.settimeout(60)
channel.invoke_subsystem("sftp")
next_id = 0


def exactly(count):
    data = b""
    while len(data) < count:
        part = channel.recv(count - len(data))
        assert part, "the channel has ended"
        data += part
    return data


def receive():
    packet = exactly(struct.unpack(">I", exactly(4))[0])
    return packet[0], packet[1:]


def send(kind, body):
    global next_id
    next_id += 1
    packet = struct.pack(">BI", kind, next_id) + body
    channel.sendall(text(packet))
    return next_id


def answer(number):
    kind, body = receive()
    assert struct.unpack(">I", body[:4])[0] == number, (kind, body[:4], number)
    return kind, body[4:]


def ask(kind, body):
    return answer(send(kind, body))


def status(kind, body):
    reply, rest = ask(kind, body)
    assert reply == STATUS, reply
    return struct.unpack(">I", rest[:4])[0]


def handle_of(kind, body):
    reply, rest = ask(kind, body)
    assert reply == HANDLE, (reply, rest)
    return rest


channel.sendall(text(struct.pack(">BI", INIT, 6)))
kind, body = receive()
assert (kind, struct.unpack(">I", body[:4])[0]) == (VERSION, 3), (kind, body)
assert b"posix-rename@openssh.com" in body
kind, body = ask(REALPATH, text("."))
assert kind == NAME and body[:4] == b"\0\0\0\1" and body[8:9] == b"/"
# It goes up from a folder by "..", and asks what a path is before it enters it.
kind, body = ask(REALPATH, text(f"{FOLDER}/tree/.."))
assert body[4:].startswith(text(FOLDER)), body
assert ask(LSTAT, text(f"{FOLDER}/tree"))[0] == ATTRS
folder = handle_of(OPENDIR, text(f"{FOLDER}/tree"))
entries = 0
while True:
    kind, body = ask(READDIR, folder)
    if kind == STATUS:
        assert struct.unpack(">I", body[:4])[0] == EOF
        break
    entries += struct.unpack(">I", body[:4])[0]
assert entries == len(os.listdir(f"{FOLDER}/tree")) + 2, entries
assert status(CLOSE, folder) == OK

# An upload: does the target exist, then a part file; eight WRITE requests under way.
part, target = f"{FOLDER}/sent.filepart", f"{FOLDER}/sent"
assert status(STAT, text(target)) == NO_SUCH_FILE
assert status(LSTAT, text(part)) == NO_SUCH_FILE
flags_write, flags_creat, flags_trunc = 2, 8, 16
file = handle_of(OPEN, text(part) + struct.pack(">II", flags_write | flags_creat | flags_trunc, 0))
waiting = []
for start in range(0, len(DATA), 32_000):
    block = DATA[start : start + 32_000]
    waiting.append(send(WRITE, file + struct.pack(">Q", start) + text(block)))
    if len(waiting) == 8:
        assert answer(waiting.pop(0))[1][:4] == b"\0\0\0\0"
for number in waiting:
    assert answer(number)[1][:4] == b"\0\0\0\0"
permissions_and_times = struct.pack(">IIII", 4 | 8, 0o100640, 981_173_106, 981_173_106)
assert status(FSETSTAT, file + permissions_and_times) == OK
assert status(CLOSE, file) == OK
assert status(REMOVE, text(target)) == NO_SUCH_FILE
assert status(RENAME, text(part) + text(target)) == OK
assert status(SETSTAT, text(target) + permissions_and_times) == OK
seen = os.stat(target)
assert (seen.st_size, int(seen.st_mtime), seen.st_mode & 0o777) == (len(DATA), 981_173_106, 0o640)
# A plain rename over a file fails, the extension replaces it.
open(f"{FOLDER}/other", "w").close()
assert status(RENAME, text(f"{FOLDER}/other") + text(target)) == FAILURE
kind, body = ask(EXTENDED, text("posix-rename@openssh.com") + text(target) + text(f"{FOLDER}/other"))
assert (kind, body[:4]) == (STATUS, b"\0\0\0\0")
kind, body = ask(EXTENDED, text("statvfs@openssh.com") + text(FOLDER))
assert kind == EXTENDED_REPLY and len(body) == 88, (kind, len(body))
kind, body = ask(EXTENDED, text("no-such@example.org"))
assert (kind, body[:4]) == (STATUS, b"\0\0\0\x08")

# A download: READ requests also beyond the end, and short answers are asked for again.
file = handle_of(OPEN, text(f"{FOLDER}/other") + struct.pack(">II", 1, 0))
read, position, waiting, ended = {}, 0, [], False
while not ended or waiting:
    while len(waiting) < 8 and not ended:
        waiting.append((send(READ, file + struct.pack(">QI", position, 32_768)), position))
        position += 32_768
    number, start = waiting.pop(0)
    kind, body = answer(number)
    if kind == STATUS:
        assert struct.unpack(">I", body[:4])[0] == EOF
        ended = True
        continue
    block = body[4:]
    read[start] = block
    assert len(block) == 32_768 or start + len(block) == len(DATA)
assert b"".join(read[start] for start in sorted(read)) == DATA
assert status(CLOSE, file) == OK

# Commands: a shell without terminal in a channel of its own, one command at a time.
shell = transport.open_session()
shell.settimeout(60)
shell.invoke_shell()
shell.sendall(b"cd /tmp ; echo \"WinSCP: this is end-of-file:$?\"\n")
said = b""
while b"end-of-file:0\n" not in said:
    more = shell.recv(4096)
    assert more, said
    said += more
transport.close()

"""paramiko as a server that runs commands and serves files as the user who started it.

Arguments are `name=value`: port, keys (a folder), authorized_keys.
"""

import base64
import os
import socket
import subprocess
import sys
import threading

import paramiko

OPTIONS = dict(argument.split("=", 1) for argument in sys.argv[1:])
with open(OPTIONS["authorized_keys"], encoding="utf-8") as lines:
    AUTHORIZED = {
        base64.b64decode(words[1])
        for words in map(str.split, lines)
        if len(words) > 1 and words[0].startswith("ssh-ed25519")
    }


def code(work):
    """The result of what the system may refuse."""
    try:
        return work()
    except OSError as error:
        return paramiko.SFTPServer.convert_errno(error.errno)


def done(work):
    """The same of what has no result."""
    result = code(work)
    return paramiko.SFTP_OK if result is None else result


class OpenFile(paramiko.SFTPHandle):
    """An open file."""

    def stat(self):
        file = self.readfile or self.writefile
        return code(lambda: paramiko.SFTPAttributes.from_stat(os.fstat(file.fileno())))

    def chattr(self, attr):
        return done(lambda: paramiko.SFTPServer.set_file_attr(self.filename, attr))


class Files(paramiko.SFTPServerInterface):
    """The system's files."""

    def list_folder(self, path):
        def read():
            found = []
            for name in os.listdir(path):
                attributes = paramiko.SFTPAttributes.from_stat(
                    os.lstat(os.path.join(path, name)), name
                )
                found.append(attributes)
            return found

        return code(read)

    def stat(self, path):
        return code(lambda: paramiko.SFTPAttributes.from_stat(os.stat(path)))

    def lstat(self, path):
        return code(lambda: paramiko.SFTPAttributes.from_stat(os.lstat(path)))

    def open(self, path, flags, attr):
        def begin():
            mode = attr.st_mode if attr.st_mode is not None else 0o666
            descriptor = os.open(path, flags | os.O_CLOEXEC, mode & 0o777)
            handle = OpenFile(flags)
            kind = {os.O_RDONLY: "rb", os.O_WRONLY: "wb"}.get(flags & os.O_ACCMODE, "r+b")
            file = os.fdopen(descriptor, kind)
            if kind != "wb":
                handle.readfile = file
            if kind != "rb":
                handle.writefile = file
            # What sets attributes by a name.
            handle.filename = path
            return handle

        return code(begin)

    def remove(self, path):
        return done(lambda: os.remove(path))

    def rename(self, oldpath, newpath):
        return done(lambda: os.rename(oldpath, newpath))

    def posix_rename(self, oldpath, newpath):
        return done(lambda: os.replace(oldpath, newpath))

    def mkdir(self, path, attr):
        return done(lambda: os.mkdir(path))

    def rmdir(self, path):
        return done(lambda: os.rmdir(path))

    def chattr(self, path, attr):
        return done(lambda: paramiko.SFTPServer.set_file_attr(path, attr))

    def canonicalize(self, path):
        return os.path.realpath(path)


class Interface(paramiko.ServerInterface):
    """Lets the test's keys in and remembers what is to be run."""

    def __init__(self):
        self.command = None
        self.asked = threading.Event()

    def get_allowed_auths(self, username):
        return "publickey"

    def check_auth_publickey(self, username, key):
        if key.asbytes() in AUTHORIZED:
            return paramiko.AUTH_SUCCESSFUL
        return paramiko.AUTH_FAILED

    def check_channel_request(self, kind, chanid):
        return paramiko.OPEN_SUCCEEDED

    def check_channel_exec_request(self, channel, command):
        self.command = command
        self.asked.set()
        return True

    def check_channel_subsystem_request(self, channel, name):
        self.asked.set()
        return super().check_channel_subsystem_request(channel, name)


def serve(stream):
    """One connection with one command."""
    transport = paramiko.Transport(stream)
    key = f"{OPTIONS['keys']}/host_ed25519"
    transport.add_server_key(paramiko.Ed25519Key.from_private_key_file(key))
    transport.set_subsystem_handler("sftp", paramiko.SFTPServer, Files)
    interface = Interface()
    try:
        transport.start_server(server=interface)
    except (paramiko.SSHException, EOFError):
        return
    channel = transport.accept(20)
    if channel is None or not interface.asked.wait(20):
        transport.close()
        return
    if interface.command is None:
        # A thread of its own serves files until the client leaves.
        transport.join()
        return
    ended = subprocess.run(
        ["/bin/sh", "-c", interface.command], capture_output=True, check=False
    )
    channel.sendall(ended.stdout)
    channel.sendall_stderr(ended.stderr)
    channel.send_exit_status(ended.returncode)
    channel.close()


def main():
    listener = socket.create_server(("127.0.0.1", int(OPTIONS["port"])))
    while True:
        stream, _ = listener.accept()
        threading.Thread(target=serve, args=(stream,), daemon=True).start()


main()

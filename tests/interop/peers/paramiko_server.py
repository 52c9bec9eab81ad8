"""paramiko as a server that runs commands as the user who started it.

Arguments are `name=value`: port, keys (a folder), authorized_keys.
"""

import base64
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


def serve(stream):
    """One connection with one command."""
    transport = paramiko.Transport(stream)
    key = f"{OPTIONS['keys']}/host_ed25519"
    transport.add_server_key(paramiko.Ed25519Key.from_private_key_file(key))
    interface = Interface()
    try:
        transport.start_server(server=interface)
    except (paramiko.SSHException, EOFError):
        return
    channel = transport.accept(20)
    if channel is None or not interface.asked.wait(20):
        transport.close()
        return
    done = subprocess.run(
        ["/bin/sh", "-c", interface.command], capture_output=True, check=False
    )
    channel.sendall(done.stdout)
    channel.sendall_stderr(done.stderr)
    channel.send_exit_status(done.returncode)
    channel.close()


def main():
    listener = socket.create_server(("127.0.0.1", int(OPTIONS["port"])))
    while True:
        stream, _ = listener.accept()
        threading.Thread(target=serve, args=(stream,), daemon=True).start()


main()

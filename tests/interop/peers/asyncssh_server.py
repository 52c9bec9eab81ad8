"""asyncssh as a server that runs commands, forwards and serves files as the user who started it.

Arguments are `name=value`: port, keys (a folder), authorized_keys, and lists by commas.
"""

import asyncio
import sys

import asyncssh

KEYS = ["ed25519", "ecdsa256", "ecdsa384", "ecdsa521", "rsa"]


async def pump(reader, writer):
    """Copies until the end, as fast as `writer` takes it."""
    while chunk := await reader.read(1 << 16):
        writer.write(chunk)
        await writer.drain()


async def feed(reader, writer):
    """Copies to a command's input; a command need not read all of it."""
    try:
        await pump(reader, writer)
    except (BrokenPipeError, ConnectionResetError):
        pass
    writer.close()


async def run(process):
    """Joins a session's streams to a command of the shell."""
    command = await asyncio.create_subprocess_exec(
        "/bin/sh",
        "-c",
        process.command or "exec /bin/sh",
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    stdin = asyncio.create_task(feed(process.stdin, command.stdin))
    await asyncio.gather(
        pump(command.stdout, process.stdout),
        pump(command.stderr, process.stderr),
    )
    process.exit(await command.wait())
    stdin.cancel()


class Forwarding(asyncssh.SSHServer):
    """Permits each connection and listener."""

    def connection_requested(self, dest_host, dest_port, orig_host, orig_port):
        return True

    def server_requested(self, listen_host, listen_port):
        return True

    def unix_connection_requested(self, dest_path):
        return True

    def unix_server_requested(self, listen_path):
        return True


async def main():
    options = dict(argument.split("=", 1) for argument in sys.argv[1:])
    lists = {
        name: options[key].split(",")
        for name, key in [
            ("kex_algs", "kex"),
            ("encryption_algs", "ciphers"),
            ("mac_algs", "macs"),
            ("compression_algs", "compression"),
        ]
        if options.get(key)
    }
    if "rekey_bytes" in options:
        lists["rekey_bytes"] = int(options["rekey_bytes"])
    keys = [f"{options['keys']}/host_{name}" for name in KEYS]
    await asyncssh.listen(
        "127.0.0.1",
        int(options["port"]),
        server_host_keys=keys,
        authorized_client_keys=options["authorized_keys"],
        server_factory=Forwarding,
        process_factory=run,
        sftp_factory=True,
        encoding=None,
        config=None,
        **lists,
    )
    await asyncio.Event().wait()


asyncio.run(main())

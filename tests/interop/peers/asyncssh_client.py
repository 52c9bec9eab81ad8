"""asyncssh as a client: one login and one command for each order (see orders.py)."""

import asyncio

import asyncssh

from orders import Stream, names, serve


async def feed(process, path):
    if path:
        with open(path, "rb") as data:
            while chunk := data.read(1 << 16):
                process.stdin.write(chunk)
                await process.stdin.drain()
    process.stdin.write_eof()


async def collect(reader, stream):
    while chunk := await reader.read(1 << 16):
        stream.add(chunk)


async def login(order):
    options = {}
    if "rekey_bytes" in order:
        options["rekey_bytes"] = int(order["rekey_bytes"])
    return await asyncssh.connect(
        "127.0.0.1",
        int(order["port"]),
        username=order["user"],
        client_keys=[order["identity"]],
        known_hosts=order["known_hosts"],
        config=None,
        agent_path=None,
        kex_algs=names(order, "kex"),
        server_host_key_algs=names(order, "host_keys"),
        encryption_algs=names(order, "ciphers"),
        mac_algs=names(order, "macs"),
        compression_algs=names(order, "compression"),
        **options,
    )


async def run(order):
    stdout, stderr = Stream(), Stream()
    async with await login(order) as connection:
        process = await connection.create_process(order["command"], encoding=None)
        await asyncio.gather(
            feed(process, order.get("input")),
            collect(process.stdout, stdout),
            collect(process.stderr, stderr),
        )
        await process.wait_closed()
        return process.returncode, stdout, stderr


serve(lambda order: asyncio.run(asyncio.wait_for(run(order), 50)))

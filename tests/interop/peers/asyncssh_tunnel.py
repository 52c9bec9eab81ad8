"""asyncssh as a client that forwards (see tunnel.py)."""

import asyncio

import asyncssh

from tunnel import arguments


async def start(connection, flag, listener, target):
    """One forwarding of a connection."""
    local = flag != "-R"
    if flag == "-D":
        return await connection.forward_socks("127.0.0.1", listener)
    from_path, to_path = isinstance(listener, str), isinstance(target, str)
    here = [listener] if from_path else ["127.0.0.1", listener]
    there = [target] if to_path else list(target)
    kinds = {
        (True, False, False): "forward_local_port",
        (True, True, True): "forward_local_path",
        (True, False, True): "forward_local_port_to_path",
        (True, True, False): "forward_local_path_to_port",
        (False, False, False): "forward_remote_port",
        (False, True, True): "forward_remote_path",
        (False, False, True): "forward_remote_port_to_path",
        (False, True, False): "forward_remote_path_to_port",
    }
    return await getattr(connection, kinds[local, from_path, to_path])(*here, *there)


async def main():
    options, forwards = arguments()
    connection = await asyncssh.connect(
        "127.0.0.1",
        int(options["port"]),
        username=options["user"],
        client_keys=[options["identity"]],
        known_hosts=options["known_hosts"],
        config=None,
        agent_path=None,
    )
    for forward in forwards:
        await start(connection, *forward)
    await connection.wait_closed()


asyncio.run(main())

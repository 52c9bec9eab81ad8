"""asyncssh or paramiko as a client of files: puts a tree, lists it and gets it back.

Arguments are `name=value`: library, port, user, identity, known_hosts, and the folders from, there
and back.
"""

import asyncio
import os
import sys

OPTIONS = dict(argument.split("=", 1) for argument in sys.argv[1:])
PORT = int(OPTIONS["port"])
FROM, THERE, BACK = (OPTIONS[name] for name in ("from", "there", "back"))


async def by_asyncssh():
    import asyncssh

    async with asyncssh.connect(
        "127.0.0.1",
        PORT,
        username=OPTIONS["user"],
        client_keys=[OPTIONS["identity"]],
        known_hosts=OPTIONS["known_hosts"],
        config=None,
        agent_path=None,
    ) as connection:
        async with connection.start_sftp_client() as sftp:
            await sftp.put(FROM, THERE, recurse=True, preserve=True)
            names = sorted(await sftp.listdir(THERE))
            assert names == sorted([".", "..", *os.listdir(FROM)]), names
            assert await sftp.getsize(f"{THERE}/large") == os.path.getsize(f"{FROM}/large")
            await sftp.get(THERE, BACK, recurse=True, preserve=True)


def by_paramiko():
    import paramiko

    transport = paramiko.Transport(("127.0.0.1", PORT))
    key = paramiko.Ed25519Key.from_private_key_file(OPTIONS["identity"])
    transport.connect(username=OPTIONS["user"], pkey=key)
    sftp = paramiko.SFTPClient.from_transport(transport)
    sftp.mkdir(THERE)
    os.mkdir(BACK)
    for name in os.listdir(FROM):
        # Confirmed by a STAT.
        sftp.put(f"{FROM}/{name}", f"{THERE}/{name}")
    assert sorted(sftp.listdir(THERE)) == sorted(os.listdir(FROM))
    with sftp.open(f"{THERE}/large", "r") as file:
        file.prefetch()
        file.seek(1_000_000)
        middle = file.read(100_000)
    with open(f"{FROM}/large", "rb") as file:
        file.seek(1_000_000)
        assert file.read(100_000) == middle
    for name in sftp.listdir(THERE):
        sftp.get(f"{THERE}/{name}", f"{BACK}/{name}")
    transport.close()


if OPTIONS["library"] == "asyncssh":
    asyncio.run(asyncio.wait_for(by_asyncssh(), 50))
else:
    by_paramiko()

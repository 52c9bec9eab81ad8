"""paramiko or asyncssh as a client of the agent of SSH_AUTH_SOCK: signs with each of its keys and
verifies. asyncssh also adds the key of a file with constraints, and locks. Prints one line a step.

    agent_client.py asyncssh|paramiko KEY_FILE
"""

import asyncio
import base64
import sys


def with_paramiko():
    import paramiko

    for key in paramiko.Agent().get_keys():
        algorithm = "rsa-sha2-256" if key.get_name() == "ssh-rsa" else None
        signature = paramiko.Message(key.sign_ssh_data(b"data", algorithm=algorithm))
        public = key.inner_key
        assert public.verify_ssh_sig(b"data", signature)
        print("signed", key.get_name())


async def with_asyncssh(path):
    import asyncssh

    async with asyncssh.connect_agent() as agent:
        for pair in await agent.get_keys():
            if pair.algorithm == b"ssh-rsa":
                pair.set_sig_algorithm(b"rsa-sha2-512")
            signature = await pair.sign_async(b"data")
            data = pair.public_data
            name = data[4 : 4 + int.from_bytes(data[:4], "big")]
            public = asyncssh.import_public_key(b"%s %s" % (name, base64.b64encode(data)))
            assert public.verify(b"data", signature)
            print("signed", name.decode())
        key = asyncssh.read_private_key(path)
        await agent.add_keys([key], lifetime=600, confirm=True)
        print("listed", len(await agent.get_keys()))
        await agent.lock("sesame")
        print("listed", len(await agent.get_keys()))
        try:
            await agent.unlock("wrong")
            print("unlocked by a wrong passphrase")
        except ValueError:
            pass
        await agent.unlock("sesame")
        await agent.remove_keys([pair for pair in await agent.get_keys()])
        print("listed", len(await agent.get_keys()))


if sys.argv[1] == "paramiko":
    with_paramiko()
else:
    asyncio.run(with_asyncssh(sys.argv[2]))

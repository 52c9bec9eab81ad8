"""Prints the algorithms that a library can use, a list per line: name, tab, names by commas."""

import sys


def asyncssh_lists():
    from asyncssh import compression, encryption, kex, mac, public_key

    hosts = public_key.get_public_key_algs() + public_key.get_certificate_algs()
    return {
        "kex": kex.get_kex_algs(),
        "host_keys": hosts,
        "ciphers": encryption.get_encryption_algs(),
        "macs": mac.get_mac_algs(),
        "compression": compression.get_compression_algs(),
    }


def paramiko_lists():
    import paramiko

    transport = paramiko.Transport
    return {
        "kex": list(transport._kex_info),
        # Names of certificates stand in its table, but it knows no authorities for hosts.
        "host_keys": [name for name in transport._key_info if "-cert-" not in name],
        "ciphers": list(transport._cipher_info),
        "macs": list(transport._mac_info),
        "compression": list(transport._compression_info),
    }


LISTS = {"asyncssh": asyncssh_lists, "paramiko": paramiko_lists}

for name, values in LISTS[sys.argv[1]]().items():
    texts = [value.decode() if isinstance(value, bytes) else value for value in values]
    print(name, ",".join(texts), sep="\t")

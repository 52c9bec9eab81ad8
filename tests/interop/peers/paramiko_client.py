"""paramiko as a client: one login and one command for each order (see orders.py)."""

import socket
import threading

import paramiko

from orders import Stream, names, serve

# paramiko answers CLOSE on the thread that alone can go on with a key exchange, and waits there for
# its end if it has asked for one itself: 30 s later the connection breaks and data is lost that had
# come. Any server's CLOSE may be on its way then.
handle_close = paramiko.Channel._handle_close


def handle_close_elsewhere(channel, message):
    threading.Thread(target=handle_close, args=(channel, message), daemon=True).start()


paramiko.Channel._handle_close = handle_close_elsewhere


def transport_for(order):
    connection = socket.create_connection(("127.0.0.1", int(order["port"])), timeout=60)
    transport = paramiko.Transport(connection)
    options = transport.get_security_options()
    for option, key in [
        ("kex", "kex"),
        ("key_types", "host_keys"),
        ("ciphers", "ciphers"),
        ("digests", "macs"),
        ("compression", "compression"),
    ]:
        if names(order, key):
            setattr(options, option, names(order, key))
    if "rekey_bytes" in order:
        transport.packetizer.REKEY_BYTES = int(order["rekey_bytes"])
    return transport


def check_host_key(transport, order):
    key = transport.get_remote_server_key()
    known = paramiko.HostKeys()
    with open(order["known_hosts"], encoding="ascii") as lines:
        for line in lines:
            entry = None if line.startswith("@") else paramiko.hostkeys.HostKeyEntry.from_line(line)
            if entry:
                known.add(entry.hostnames[0], entry.key.get_name(), entry.key)
    if not known.check(f"[127.0.0.1]:{order['port']}", key):
        raise paramiko.SSHException("the host key is not the one in known_hosts")


def feed(channel, path):
    if path:
        with open(path, "rb") as data:
            while chunk := data.read(1 << 16):
                channel.sendall(chunk)
    channel.shutdown_write()


def collect(receive, stream):
    while chunk := receive(1 << 16):
        stream.add(chunk)


def run(order):
    stdout, stderr = Stream(), Stream()
    transport = transport_for(order)
    try:
        transport.start_client(timeout=60)
        check_host_key(transport, order)
        transport.auth_publickey(order["user"], paramiko.PKey.from_path(order["identity"]))
        channel = transport.open_session(timeout=60)
        channel.settimeout(60)
        channel.exec_command(order["command"])
        jobs = [
            threading.Thread(target=feed, args=(channel, order.get("input")), daemon=True),
            threading.Thread(target=collect, args=(channel.recv, stdout), daemon=True),
            threading.Thread(target=collect, args=(channel.recv_stderr, stderr), daemon=True),
        ]
        for job in jobs:
            job.start()
        for job in jobs:
            job.join(50)
            if job.is_alive():
                raise TimeoutError("the command does not end")
        return channel.recv_exit_status(), stdout, stderr
    finally:
        transport.close()


serve(run)

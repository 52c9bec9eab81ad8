"""paramiko as a client that forwards ports (see tunnel.py). Its users write the loops that move
the bytes; these are those of its demos, with half-closed connections."""

import socket
import threading

import paramiko

from tunnel import arguments


def pump(receive, send, end):
    """Copies until the end, and passes it on."""
    try:
        while chunk := receive(1 << 16):
            send(chunk)
        end()
    except OSError:
        pass


def join(channel, stream):
    """Moves bytes both ways until both directions have ended."""
    back = threading.Thread(
        target=pump,
        args=(channel.recv, stream.sendall, lambda: stream.shutdown(socket.SHUT_WR)),
        daemon=True,
    )
    back.start()
    pump(stream.recv, channel.sendall, channel.shutdown_write)
    back.join()
    channel.close()
    stream.close()


def local(transport, listener, target):
    """A listener whose connections open channels."""
    server = socket.create_server(("127.0.0.1", listener))

    def serve(stream, peer):
        try:
            channel = transport.open_channel("direct-tcpip", target, peer)
        except paramiko.SSHException:
            stream.close()
            return
        join(channel, stream)

    def accept():
        while True:
            threading.Thread(target=serve, args=server.accept(), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()


class Remote:
    """Listeners of the server. paramiko has one handler for all of them."""

    def __init__(self, transport):
        self.transport, self.targets = transport, {}

    def listen(self, listener, target):
        self.targets[listener] = target
        self.transport.request_port_forward("127.0.0.1", listener, self.accepted)

    def accepted(self, channel, origin, server):
        arguments = channel, self.targets[server[1]]
        threading.Thread(target=self.serve, args=arguments, daemon=True).start()

    def serve(self, channel, target):
        try:
            stream = socket.create_connection(target)
        except OSError:
            channel.close()
            return
        join(channel, stream)


def main():
    options, forwards = arguments()
    connection = socket.create_connection(("127.0.0.1", int(options["port"])), timeout=60)
    connection.settimeout(None)
    transport = paramiko.Transport(connection)
    transport.start_client(timeout=60)
    transport.auth_publickey(options["user"], paramiko.PKey.from_path(options["identity"]))
    remote = Remote(transport)
    for flag, listener, target in forwards:
        if flag == "-L":
            local(transport, listener, target)
        else:
            remote.listen(listener, target)
    transport.join()


main()

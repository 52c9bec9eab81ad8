"""Prints the records of the kernel's audit subsystem as they come, each as `TYPE TEXT`, until standard input ends.

Auditing is turned on meanwhile. Needs root in the first namespaces. The numbers are those of linux/audit.h and
linux/netlink.h. The first line is `ready`.
"""

import select
import socket
import struct
import sys

AF_NETLINK, NETLINK_AUDIT, READLOG = 16, 9, 1
REQUEST, ACK = 1, 4
ERROR, GET, SET = 2, 1000, 1001
ENABLED = 1


def ask(kind, payload):
    """Sends a request and returns the payloads of its answers."""
    with socket.socket(AF_NETLINK, socket.SOCK_RAW, NETLINK_AUDIT) as asked:
        asked.settimeout(20)
        asked.sendto(struct.pack("=IHHII", 16 + len(payload), kind, REQUEST | ACK, 1, 0) + payload, (0, 0))
        answers = {}
        while len(answers) < (2 if kind == GET else 1):
            datagram = asked.recv(1 << 16)
            (number,) = struct.unpack_from("=H", datagram, 4)
            answers[number] = datagram[16:]
        (error,) = struct.unpack_from("=i", answers[ERROR])
        if error:
            raise OSError(-error, "the audit subsystem refuses")
        return answers


def turn(value):
    ask(SET, struct.pack("=10I", ENABLED, value, *[0] * 8))


(_, was_enabled) = struct.unpack_from("=II", ask(GET, b"")[GET])
with socket.socket(AF_NETLINK, socket.SOCK_RAW, NETLINK_AUDIT) as trail:
    trail.bind((0, READLOG))
    if not was_enabled:
        turn(1)
    try:
        print("ready", flush=True)
        while True:
            readable, _, _ = select.select([trail, sys.stdin], [], [])
            if trail in readable:
                datagram = trail.recv(1 << 16)
                (number,) = struct.unpack_from("=H", datagram, 4)
                print(number, datagram[16:].decode(errors="replace").rstrip("\0"), flush=True)
            elif sys.stdin in readable:
                break
    finally:
        if not was_enabled:
            turn(0)

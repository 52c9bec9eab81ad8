"""Orders and answers of the Python clients: a line each, `name=value` separated by tabs."""

import hashlib
import sys

KEPT_OUTPUT = 1 << 20


class Stream:
    """What a command wrote: its start, length and SHA-256."""

    def __init__(self):
        self.head = b""
        self.length = 0
        self.digest = hashlib.sha256()

    def add(self, data):
        self.head += data[: KEPT_OUTPUT - len(self.head)]
        self.length += len(data)
        self.digest.update(data)

    def fields(self, name):
        return {
            f"{name}_head": self.head[:4096].hex(),
            f"{name}_length": self.length,
            f"{name}_sha256": self.digest.hexdigest(),
        }


def names(order, key):
    """A list of an order; None where the program's own is to be used."""
    return order[key].split(",") if order.get(key) else None


def serve(run):
    """Answers each order on standard input with what `run(order)` gives: status, stdout, stderr."""
    for line in sys.stdin:
        order = dict(part.split("=", 1) for part in line.rstrip("\n").split("\t"))
        try:
            status, stdout, stderr = run(order)
            answer = {"status": status, **stdout.fields("stdout"), **stderr.fields("stderr")}
        except Exception as error:  # whatever it is, it is the answer
            text = f"{type(error).__name__}: {error}"
            answer = {"error": " ".join(text.split())}
        print("\t".join(f"{name}={value}" for name, value in answer.items()), flush=True)

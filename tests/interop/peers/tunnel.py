"""Arguments of a client that forwards: `name=value` (port, user, identity, known_hosts), then flags
with a specification: `-L` and `-R` with LISTENER:TARGET, `-D` with LISTENER. A listener is a port of
127.0.0.1 or a path, a target HOST:PORT or a path."""

import sys


def place(words):
    """A path, or a host and a port."""
    if words[0].startswith("/"):
        return words[0]
    return words[0], int(words[1])


def arguments():
    """The options, and a list of flag, listener and target; a `-D` has no target."""
    options, forwards, rest = {}, [], iter(sys.argv[1:])
    for argument in rest:
        if argument in ("-L", "-R", "-D"):
            words = next(rest).split(":")
            listener = words[0] if words[0].startswith("/") else int(words[0])
            forwards.append((argument, listener, place(words[1:]) if words[1:] else None))
        else:
            name, value = argument.split("=", 1)
            options[name] = value
    return options, forwards

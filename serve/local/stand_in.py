"""A process in the place of a helper of Ray: it does nothing until somebody asks for the helper, and then becomes it.

Ray's node process starts two helpers, and ends itself when one of them ends. This file is run by itself, followed by
the file of the helper and its arguments, with nothing of demur's on the import path, so that it is small. It ends with
its parent.
"""

import os
import select
import socket
import sys

HOST, PORT = "--node-ip-address=", "--runtime-env-agent-port="
"""Where the helper for environments of workers is asked; the other helper is never asked."""

LOOK_SECONDS = 1.0


def main() -> None:
    parent, helper = os.getppid(), sys.argv[1:]
    with door(helper) as listening:
        doors = [listening] if any(word.startswith(PORT) for word in helper) else []
        while not select.select(doors, [], [], LOOK_SECONDS)[0]:
            if os.getppid() != parent:
                return
    os.execv(sys.executable, [sys.executable, "-u", *helper])  # noqa: S606 - as Ray would have run it


def door(helper: list[str]) -> socket.socket:
    """Listen where the helper would, if it is one that is asked over a port."""
    told = {name: word.removeprefix(name) for word in helper for name in (HOST, PORT) if word.startswith(name)}
    opened = socket.socket(socket.AF_INET6 if ":" in told.get(HOST, "") else socket.AF_INET)
    if PORT in told:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        opened.bind((told.get(HOST, "127.0.0.1"), int(told[PORT])))
        opened.listen()
    return opened


if __name__ == "__main__":
    main()

"""Ask for a worker of Ray, in the place of the program that Ray would start.

Ray's node process runs this file by itself, followed by the file of the worker and its arguments. The worker is forked
by `worker_source`; Ray learns its number when it reports itself, and this process ends. Where nobody answers, or Ray
wants an environment of its own for the worker, this process becomes what Ray would have started.
"""

import json
import os
import signal
import socket
import sys

ADDRESS = "DEMUR_WORKER_SOURCE"
"""The variable with the path of the Unix socket at which workers are asked for."""

ASK_SECONDS = 45.0
"""So long is waited for whoever forks workers: a machine that starts everything at once is slow. Ray ends a worker that
has not reported itself within sixty seconds, and starts the next one."""

FILES = 3
"""Standard input, output and errors."""

OOM_SCORE = "/proc/self/oom_score_adj"
"""How soon the system ends a process where memory runs out. Ray raises it for workers, so that they go first."""

OWN_ENVIRONMENT = "--serialized-runtime-env-context="
LANGUAGE = "--language="
"""What Ray tells the program that makes environments, and what the worker itself does not take."""

SETUP = "setup_worker.py"
"""Ray's program that makes an environment for a worker. It lies beside that of the worker."""


def ask(address: str, words: list[str]) -> bool:
    """Ask for a worker, and return whether there is one."""
    told = {
        "words": words,
        "environment": dict(os.environ),
        "folder": os.getcwd(),
        "blocked": sorted(signal.pthread_sigmask(signal.SIG_BLOCK, ())),
    }
    try:
        with open(OOM_SCORE) as score:
            told["oom_score"] = score.read()
        with socket.socket(socket.AF_UNIX) as asking:
            asking.settimeout(ASK_SECONDS)
            asking.connect(address)
            socket.send_fds(asking, [b" "], range(FILES))
            asking.sendall(json.dumps(told).encode())
            asking.shutdown(socket.SHUT_WR)
            return asking.recv(32).isdigit()
    except OSError:
        return False


def main() -> None:
    told = sys.argv[1:]
    words = [word for word in told if not word.startswith(LANGUAGE)]
    address = os.environ.get(ADDRESS)
    if any(word.startswith(OWN_ENVIRONMENT) for word in told):
        words = [os.path.join(os.path.dirname(told[0]), SETUP), *told]
    elif address and ask(address, words):
        return
    os.execv(sys.executable, [sys.executable, *words])  # noqa: S606 - as Ray would have run it


if __name__ == "__main__":
    main()

"""A process that runs one command, and stops it when whoever started it is gone.

Its standard input is a pipe whose other end only the starter holds. When that process ends, even by SIGKILL, the pipe
closes, and the command gets a SIGINT. This file is run by itself, so that it is small and starts at once.
"""

import os
import signal
import subprocess
import sys
import threading

STOP_SECONDS = 60.0
"""For the command to end in order; then it is killed."""


def run_tethered(command: list[str]) -> int:
    """Run a command until it ends, standard input closes or a SIGTERM comes; return its exit status."""
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True)  # noqa: S603 - given by our own
    stopping = threading.Event()

    def stop(*_: object) -> None:
        if not stopping.is_set():
            stopping.set()
            child.send_signal(signal.SIGINT)
            timer = threading.Timer(STOP_SECONDS, child.kill)
            timer.daemon = True
            timer.start()

    def watch() -> None:
        while os.read(sys.stdin.fileno(), 1024):
            pass
        stop()

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    threading.Thread(target=watch, name="tether", daemon=True).start()
    return child.wait()


if __name__ == "__main__":
    sys.exit(run_tethered(sys.argv[1:]))

"""The command line as a program: `demur`, or `python -m demur`."""

import signal


def main() -> None:
    """Run a command. Until it has been imported, which takes seconds, Ctrl-C ends the process without a traceback."""
    before = signal.signal(signal.SIGINT, signal.SIG_DFL)
    from demur.serve import cli

    signal.signal(signal.SIGINT, before)
    cli.main()


if __name__ == "__main__":
    main()

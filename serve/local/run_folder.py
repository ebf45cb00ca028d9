"""The private folder of one start: sockets, settings, logs and tokens of Ray and of the proxy lie under it.

Ray and HAProxy make some of their sockets and folders open to everybody. Nobody but the owner gets through a parent
folder of mode 0700, so that does not matter.
"""

import os
import secrets
import stat
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

LONGEST_PATH = 26
"""Characters. The path of a Unix socket may have 107, of which HAProxy's file names take up to 81."""

PREFIX = "demur-"


class UnsafeFolder(RuntimeError):
    """The folder for temporary files can be changed by other users. Set TMPDIR to one that cannot."""


@dataclass(frozen=True)
class RunFolder:
    """Where things lie in the folder of one start."""

    path: Path

    @property
    def ray(self) -> Path:
        """Ray's session: sockets, logs, spilled objects."""
        return self.path / "ray"

    @property
    def proxy(self) -> Path:
        """HAProxy's settings, sockets and state."""
        return self.path / "proxy"

    @property
    def proxy_program(self) -> Path:
        """What Ray Serve starts in the place of HAProxy."""
        return self.path / "haproxy"

    @property
    def workers(self) -> Path:
        """The socket at which Ray's workers are asked for."""
        return self.path / "workers"

    @property
    def sockets(self) -> Path:
        """Where hosts listen for gateways. They read pickles there: no other user may reach it."""
        return self.path / "sockets"

    @property
    def compiled(self) -> Path:
        """What torch keeps of code that it compiles. It would take a folder of /tmp whose name everybody knows."""
        return self.path / "torch"

    @property
    def token(self) -> Path:
        """What the processes of this Ray show each other."""
        return self.path / "token"


def make_run_folder(parent: Path | None = None) -> RunFolder:
    """Make a new folder that only this user can enter, with a new token in it.

    Raises `UnsafeFolder` where another user could rename or replace the folder.
    """
    parent = parent or _parent()
    check_parent(parent)
    folder = RunFolder(Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent)))
    for below in (folder.ray, folder.proxy, folder.sockets):
        below.mkdir(mode=0o700)
    write_private(folder.token, secrets.token_hex(32))
    return folder


def is_run_folder(path: Path) -> bool:
    """Whether this can be a run folder that this user has made."""
    try:
        facts = path.lstat()
    except OSError:
        return False
    private = stat.S_ISDIR(facts.st_mode) and facts.st_uid == os.geteuid() and not facts.st_mode & 0o077
    return private and path.name.startswith(PREFIX)


def check_parent(parent: Path) -> None:
    """Raise `UnsafeFolder` unless only the owner and root can rename what this user makes in `parent`."""
    ours = (0, os.geteuid())
    for folder in (parent.resolve(), *parent.resolve().parents):
        facts = folder.stat()
        others_write = facts.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
        if facts.st_uid not in ours or (others_write and not facts.st_mode & stat.S_ISVTX):
            raise UnsafeFolder(
                f"other users of this machine can change {folder}, in which demur would keep its sockets; set TMPDIR"
                " to a folder that only you can write to"
            )


def open_to_everybody(folder: Path) -> str:
    """Return one sentence where every user of this machine can rename what this user keeps in a folder; else nothing.

    No refusal: in a container such a volume is usual, and its only user is this one.
    """
    for above in (folder.resolve(), *folder.resolve().parents):
        if above.exists() and (mode := above.stat().st_mode) & stat.S_IWOTH and not mode & stat.S_ISVTX:
            return f"every user of this machine can move what demur keeps in {folder}; run: chmod o-w {above}"
    return ""


def write_private(path: Path, text: str, *, mode: int = 0o600) -> None:
    """Write a new file that has its mode from the beginning."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "w", encoding="utf-8") as file:
        file.write(text)


def _parent() -> Path:
    usual = Path(tempfile.gettempdir())
    longest = len(str(usual)) + 1 + len(PREFIX) + 8  # mkdtemp adds eight letters
    return Path("/tmp") if longest > LONGEST_PATH and sys.platform == "linux" else usual  # noqa: S108 - it is checked

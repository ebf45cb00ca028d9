"""A folder behind any URL that fsspec understands: list, read, write, and create a file that nobody overwrites."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any
from uuid import uuid4

import fsspec
from fsspec.implementations.local import LocalFileSystem


class ArtifactsUnreachable(RuntimeError):
    """The place where artifacts are kept does not answer, or lets nobody in. The message names it and says what to do.

    It says nothing about the artifacts: whoever has one goes on with it, and asks again later.
    """


S3 = {
    "max_concurrency": 1,  # else each read asks first for the size, to fetch large files in parts
    # s3fs tries five times by itself; what it calls would try five times each, for minutes where nobody answers
    "config_kwargs": {"connect_timeout": 3, "read_timeout": 5, "retries": {"max_attempts": 1}},
}

OPTIONS: dict[str, dict[str, Any]] = {
    "file": {"auto_mkdir": True},
    "local": {"auto_mkdir": True},
    "s3": S3,
    "s3a": S3,
}
"""What a file system is told, by the protocol of its URL."""


class Folder:
    """Paths are relative to it, with slashes. Every method raises `ArtifactsUnreachable`."""

    def __init__(self, url: str, *, holds: str = "artifacts") -> None:
        self.url = url
        self._holds = holds
        self._files: fsspec.AbstractFileSystem
        with self._reached():
            protocol = fsspec.core.split_protocol(url)[0] or "file"
            self._files, root = fsspec.core.url_to_fs(url, **OPTIONS.get(protocol, {}))
        self._root = root.rstrip("/")

    def children(self, path: str) -> list[str]:
        """Names of what is in a folder, sorted; none if it is not there."""
        self._files.invalidate_cache()
        with self._reached():
            try:
                entries: list[Any] = self._files.ls(self._at(path), detail=False)
            except FileNotFoundError as error:
                if _code(error) == "NoSuchBucket":
                    raise
                return []
        return sorted(str(entry).rstrip("/").rsplit("/", 1)[-1] for entry in entries)

    def files(self) -> list[str]:
        """Paths of all files in it, however deep, sorted; none if it is not there."""
        self._files.invalidate_cache()
        with self._reached():
            try:
                found: list[Any] = self._files.find(self._root)
            except FileNotFoundError as error:
                if _code(error) == "NoSuchBucket":
                    raise
                return []
        return sorted(str(path).removeprefix(self._root).lstrip("/") for path in found)

    def exists(self, path: str) -> bool:
        self._files.invalidate_cache()
        with self._reached():
            return bool(self._files.exists(self._at(path)))

    def read(self, path: str) -> bytes:
        """Content of a file; raises `FileNotFoundError`."""
        with self._reached():
            content: bytes = self._files.cat_file(self._at(path))
        return content

    def write(self, path: str, content: bytes) -> None:
        """Store a file, over one that may be there."""
        with self._reached():
            self._files.pipe_file(self._at(path), content)

    @contextmanager
    def writing(self, path: str) -> Iterator[IO[bytes]]:
        """A file to write piece by piece. It is whole when the block has ended well, and not before."""
        with self._reached():
            if isinstance(self._files, LocalFileSystem):
                self._files.makedirs(self._at(path).rsplit("/", 1)[0], exist_ok=True)
            file: IO[bytes] = self._files.open(self._at(path), "wb")
        with file:
            yield file

    @contextmanager
    def reading(self, path: str) -> Iterator[IO[bytes]]:
        """A file to read piece by piece, from wherever in it; raises `FileNotFoundError`."""
        with self._reached():
            file: IO[bytes] = self._files.open(self._at(path), "rb")
        with file:
            yield file

    def move(self, old: str, new: str) -> None:
        """Give a file another name, over one that may have it."""
        with self._reached():
            self._files.mv(self._at(old), self._at(new))

    def create(self, path: str, content: bytes) -> bool:
        """Store a file that is not there yet, or return False. Of several who try at once, one succeeds.

        A file that is there with this very content counts as created: on a network, a write whose answer got lost is
        tried again, and would else be told of itself that somebody was faster.
        """
        with self._reached():
            try:
                if isinstance(self._files, LocalFileSystem):
                    self._create_locally(self._at(path), content)
                else:
                    self._files.pipe_file(self._at(path), content, mode="create")
            except FileExistsError:
                pass
            except OSError as error:
                # S3 says "precondition failed", and what speaks its language may leave out which
                if _code(error) not in ("PreconditionFailed", "412", "ConditionalRequestConflict", "409"):
                    raise
            else:
                return True
            try:
                return bool(self._files.cat_file(self._at(path)) == content)
            except FileNotFoundError:
                return False  # it is just being written: two at once were both sent away, and try again

    def _create_locally(self, path: str, content: bytes) -> None:
        """A link appears at once and whole; a file that is opened is seen empty by whoever reads at that moment."""
        folder, name = path.rsplit("/", 1)
        draft = f"{folder}/.{name}.{uuid4().hex}"
        self._files.pipe_file(draft, content)
        try:
            self._files.link(draft, path)
        except FileExistsError:
            raise
        except OSError:  # a file system without hard links
            with self._files.open(path, "xb") as file:
                file.write(content)
        finally:
            self._files.rm_file(draft)

    def _at(self, path: str) -> str:
        return f"{self._root}/{path}"

    @contextmanager
    def _reached(self) -> Iterator[None]:
        """Every file system has errors of its own for a place that it cannot reach; none of them can be named here."""
        try:
            yield
        except Exception as error:
            if isinstance(error, FileNotFoundError) and _code(error) != "NoSuchBucket":
                raise
            raise ArtifactsUnreachable(
                f"the {self._holds} in {self.url} cannot be reached: {_in_words(error)}"
            ) from error


def _code(error: Exception) -> str:
    """What an S3 server calls the error; empty for any other file system."""
    response: dict[str, Any] = getattr(error.__cause__, "response", None) or {}
    return str(response.get("Error", {}).get("Code", ""))


def _in_words(error: Exception) -> str:
    said = " ".join(str(error).split()).rstrip(".") or type(error).__name__
    if isinstance(error, ImportError):
        return f"{said}; for s3:// URLs, `pip install 'demur[s3]'`"
    if _code(error) == "NoSuchBucket":
        return "the bucket does not exist; create it, or correct `artifacts` in the configuration"
    if type(error).__name__ in ("NoCredentialsError", "PartialCredentialsError"):
        return f"{said}; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE"
    if isinstance(error, PermissionError):
        return f"{said}; check the credentials, and that they may list, read and write there"
    return f"{said}; check the address, and whether it answers"

"""What every host has whose model lies in one file."""

import os
from pathlib import Path
from typing import Any

from demur.serve.config.hosts.host import AnyHost
from demur.serve.config.input import InputConfig


class FileHost(AnyHost):
    """A model in one file, which runs on the threads that the host's CPUs allow."""

    file: Path
    """The fitted model, as its own library saved it."""

    input: InputConfig | None = None
    """What one input is; by default as the file says."""

    @property
    def model_name(self) -> str:
        return str(self.file)

    @property
    def threads(self) -> int:
        """Threads in which it predicts."""
        return max(1, int(self.cpus))

    def _placed(self, base: Path) -> dict[str, Any]:
        return {"file": Path(os.path.abspath(base / self.file))}  # a link stays one: a graph's weights lie beside it

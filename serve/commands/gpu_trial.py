"""Whether there are as many GPUs as models ask for."""

import os
from collections.abc import Iterator

from demur.serve.commands.trials import Finding, NotTried, Wrong
from demur.serve.config.file import Config
from demur.serve.hosts.gpus import gpu_shortages, gpus_here


def try_gpus(config: Config) -> Iterator[Finding]:
    """Whether Ray can set aside what models ask for."""
    if os.environ.get("RAY_ADDRESS"):
        yield NotTried("GPUs: they are those of the cluster at RAY_ADDRESS")
        return
    for name, lacking in gpu_shortages(config, gpus_here()).items():
        yield Wrong(("models", name, "host", lacking.key), lacking.why)

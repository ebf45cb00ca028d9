"""Whether there are as many GPUs as models ask for."""

import os
from collections.abc import Iterator
from pathlib import Path

from serve.commands.trials import Finding, Untried, Wrong
from serve.config.file import Config
from serve.config.hosts import HostConfig, OpenAIHost

DEVICES = ("nvidia[0-9]*", "kfd", "dxg")
"""Under /dev, where there are GPUs: torch takes seconds to be imported, only to say that there is none."""


def try_gpus(config: Config) -> Iterator[Finding]:
    """Whether Ray can set aside what models ask for: what it cannot, it waits for."""
    if os.environ.get("RAY_ADDRESS"):
        yield Untried("GPUs: they are those of the cluster at RAY_ADDRESS")
        return
    there = _gpus_here()
    wanted = {name: _wanted(model.host, there) for name, model in config.models.items()}
    for name, gpus in wanted.items():
        host = config.models[name].host
        device = str(getattr(host, "device", "auto"))
        if gpus > there:
            yield Wrong(
                ("models", name, "host", "gpus"), f"it asks for {gpus:g} {_gpus(gpus)}, and this machine has {there}"
            )
        elif device.startswith("cuda") and int(device.removeprefix("cuda").lstrip(":") or 0) >= there:
            yield Wrong(
                ("models", name, "host", "device"), f"there is no {device}: this machine has {there} {_gpus(there)}"
            )
    if there < sum(wanted.values()) and max(wanted.values()) <= there:
        listed = ", ".join(f"{name} {gpus:g}" for name, gpus in wanted.items() if gpus)
        yield Wrong(
            ("models",),
            f"all models together ask for {sum(wanted.values()):g} GPUs ({listed}), and this machine has {there};"
            " give some of them a part of one with `host.gpus: 0.5`, or `device: cpu`",
        )


def _wanted(host: HostConfig, there: int) -> float:
    """GPUs that Ray sets aside for a model from the start, as `serve.app` asks for them."""
    if host.gpus is not None:
        return host.gpus * host.fewest_replicas
    by_itself = not isinstance(host, OpenAIHost) and getattr(host, "device", "auto") not in ("cpu", "mps")
    return float(min(1, there) * host.fewest_replicas) if by_itself else 0.0


def _gpus(count: float) -> str:
    return "GPU" if count == 1 else "GPUs"


def _gpus_here() -> int:
    if not any(any(Path("/dev").glob(name)) for name in DEVICES):
        return 0
    import torch

    return int(torch.cuda.device_count())

"""GPUs: how many this machine has, how many models ask for, and for which models there are too few."""

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from demur.serve.config.file import Config
from demur.serve.config.hosts.kinds import HostConfig

DEVICES = ("nvidia[0-9]*", "kfd", "dxg")
"""Under /dev, where there are GPUs: torch takes seconds to be imported, only to say that there is none."""


@dataclass(frozen=True, kw_only=True)
class GpuShortage:
    """Why a model cannot be served on the GPUs of a machine."""

    key: str
    """The setting under `host` that asks for what is not there."""

    why: str

    @property
    def words(self) -> str:
        return f"host.{self.key}: {self.why}"


def any_gpu_here() -> bool:
    """Whether this machine may have a GPU. Nothing is imported to find out."""
    return any(any(Path("/dev").glob(name)) for name in DEVICES)


def gpus_here() -> int:
    """Return how many GPUs this machine has."""
    if not any_gpu_here():
        return 0
    import torch

    return int(torch.cuda.device_count())


def gpus_of_replica(host: HostConfig, there: float) -> float:
    """Return how many GPUs Ray sets aside for each replica of a model, where so many are there in all."""
    if host.gpus is not None:
        return host.gpus
    if not host.uses_gpu or getattr(host, "device", "auto") in ("cpu", "mps"):
        return 0.0
    return float(min(1, there))


def gpu_shortages(config: Config, there: float, *, left_out: Collection[str] = ()) -> dict[str, GpuShortage]:
    """Return the models for which there are too few GPUs. Models take GPUs in the order of the configuration, except
    those that are left out; Ray would wait for ever for what is not there."""
    found, left = {}, there
    for name, model in config.models.items():
        if name in left_out:
            continue
        host = model.host
        wanted = gpus_of_replica(host, there) * host.fewest_replicas
        device = str(getattr(host, "device", "auto"))
        if wanted > left:
            rest = f", of which the models before it leave {left:g}" if left != there else ""
            found[name] = GpuShortage(
                key="gpus",
                why=f"it asks for {wanted:g} {_gpus(wanted)}, and this machine has {there:g}{rest}; {_way_out(there)}",
            )
        elif device.startswith("cuda") and int(device.removeprefix("cuda").lstrip(":") or 0) >= there:
            found[name] = GpuShortage(
                key="device",
                why=f"there is no {device}: this machine has {there:g} {_gpus(there)}; set `device: cpu`, or use a"
                " machine that has it",
            )
        else:
            left -= wanted
    return found


def _way_out(there: float) -> str:
    parts = "share one with `gpus: 0.5`, " if there else ""
    return f"{parts}set `gpus: 0` and `device: cpu`, or use a machine that has them"


def _gpus(count: float) -> str:
    return "GPU" if count == 1 else "GPUs"

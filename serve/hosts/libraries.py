"""What hosts import that takes long and much memory, so that processes which are copies of one import it once."""

from collections.abc import Collection

from demur.serve.config.file import Config
from demur.serve.hosts.gpus import any_gpu_here

LIBRARIES = {
    "classifier": "demur.serve.hosts.classifier.model",
    "transformers": "demur.serve.hosts.language.transformers_engine",
}
"""By `host.kind`, the module with which a host imports what its models need. To import it starts no thread."""


def imported_by_hosts(config: Config, *, left_out: Collection[str] = ()) -> list[str]:
    """The modules that hosts of this machine share, if a process imports them before it forks. None where there may be
    a GPU: whoever uses one must not be a copy of a process that has looked for it. Models that are `left_out` have no
    host."""
    if any_gpu_here():
        return []
    kinds = dict.fromkeys(model.host.kind for name, model in config.models.items() if name not in left_out)
    return [LIBRARIES[kind] for kind in kinds if kind in LIBRARIES]

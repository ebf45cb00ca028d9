"""Models that cannot be served on this machine, as far as that can be told before they are loaded."""

import os
from concurrent.futures import TimeoutError as FutureTimeout

from demur.serve.config.file import Config
from demur.serve.contract.worker import Worker
from demur.serve.hosts.gpus import gpu_shortages, gpus_here
from demur.serve.hosts.kinds import check_model

CHECK_SECONDS = 120.0
"""So long it may take to see whether one checkpoint fits its configuration, which is fetched if it is not here yet."""


def unusable_models(config: Config) -> dict[str, str]:
    """Return why models cannot be served: their checkpoints do not fit, or there are too few GPUs for them. GPUs of a
    cluster that is joined are not counted, since it may get more."""
    reasons = {}
    for name, model in config.models.items():
        try:
            Worker("check").submit(check_model, model).result(CHECK_SECONDS)
        except FutureTimeout:
            reasons[name] = f"its checkpoint could not be looked at within {CHECK_SECONDS:g} s"
        except Exception as error:  # whatever is wrong with one model, the others serve
            reasons[name] = str(error) or type(error).__name__
    if "RAY_ADDRESS" not in os.environ:
        shortages = gpu_shortages(config, gpus_here(), left_out=reasons)
        reasons |= {name: lacking.words for name, lacking in shortages.items()}
    return reasons

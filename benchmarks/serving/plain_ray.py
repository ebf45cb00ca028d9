"""The usual way in a Ray as it comes: no flag of demur's, Serve's own proxy. A process of its own, because Ray reads
its flags once.

    python -m benchmarks.serving.plain_ray CONFIG PORT MODEL...

prints a line when it serves, and stops when its standard input ends.
"""

import logging
import os
import sys
import tempfile
from pathlib import Path

from demur.serve.configuration import load_config

QUIET = {"enable_access_log": False, "log_level": "WARNING"}

READY = "ready"


def main(config_file: Path, port: int, models: list[str]) -> None:
    import ray
    from ray import serve as ray_serve
    from ray.serve import RunTarget

    from benchmarks.serving.usual import usual

    logging.getLogger("ray.serve").setLevel(logging.WARNING)
    config = load_config(config_file)
    ray.init(
        address="local", include_dashboard=False, num_cpus=16, object_store_memory=200 * 2**20,
        _temp_dir=os.path.join(tempfile.gettempdir(), "demur-bench"), logging_level="warning",
    )  # fmt: skip
    ray_serve.start(http_options={"host": "127.0.0.1", "port": port}, logging_config=QUIET)
    ray_serve.run_many(
        [
            RunTarget(usual(config.models[name]), name=name, route_prefix=f"/usual-{name}", logging_config=QUIET)
            for name in models
        ]
    )
    print(READY, flush=True)
    sys.stdin.read()
    ray_serve.shutdown()
    ray.shutdown()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])

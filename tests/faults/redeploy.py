"""Bring a new version of the service to a Ray that runs, as `serve deploy` would: `redeploy.py CONFIG DSN`."""

import logging
import sys
from pathlib import Path

import ray
from ray import serve as ray_serve
from ray.serve import RunTarget

from demur.serve.app import APPLICATIONS, AppArgs
from demur.serve.configuration import load_config

logging.getLogger("ray.serve").setLevel(logging.WARNING)
config = load_config(Path(sys.argv[1])).model_copy(update={"database": sys.argv[2]})
ray.init(address="auto", logging_level="warning")
arguments = AppArgs.model_validate(config.model_dump())
builder, prefix = APPLICATIONS["demur"]
quiet = {"enable_access_log": False, "log_level": "WARNING"}
ray_serve.run_many([RunTarget(builder(arguments), name="demur", route_prefix=prefix, logging_config=quiet)])

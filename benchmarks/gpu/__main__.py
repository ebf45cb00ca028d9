"""What a GPU brings: forward passes, transfers, scores made there, two hosts on one GPU, demur beside bare, and vLLM.

    python -m benchmarks.gpu [--parts forward scores] [--table gpu.md] [--json gpu.json]
    python -m benchmarks.gpu --device cpu --small        # no GPU needed: shows that the command runs

Weights are random and made here; nothing is downloaded. A part that fails is told at the end, and the others go on.
"""

import argparse
import json
import os
import platform
import shlex
import sys
import traceback
from collections.abc import Callable
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.progress import MofNCompleteColumn, Progress, TimeElapsedColumn

from benchmarks.gpu.engines import engines
from benchmarks.gpu.forward import forward, transfers
from benchmarks.gpu.plan import SHAPES, WAYS, Plan, Results, in_short, plan_of
from benchmarks.gpu.scores import scores
from benchmarks.gpu.serving import serving
from benchmarks.gpu.sharing import sharing

PARTS: dict[str, Callable[[Plan, Callable[[], None]], Results]] = {
    "forward": forward,
    "transfers": transfers,
    "scores": scores,
    "sharing": sharing,
    "serving": serving,
    "vllm": engines,
}
PACKAGES = ("demur", "torch", "transformers", "numpy", "ray", "vllm")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda", help="cuda, cuda:1 or cpu")
    parser.add_argument("--small", action="store_true", help="small models and little time")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--sizes", nargs="+", type=int, choices=SHAPES, help="of encoders, in millions of parameters")
    parser.add_argument("--ways", nargs="+", choices=WAYS, help="of a forward pass")
    parser.add_argument("--numbers", nargs="+", choices=["float32", "bfloat16"], help="that models compute with")
    parser.add_argument("--batches", nargs="+", type=int)
    parser.add_argument("--seconds", type=float, help="of each measurement")
    parser.add_argument("--table", type=Path, help="write the tables there as well, in Markdown")
    parser.add_argument("--json", type=Path, help="write every figure there")
    options = parser.parse_args()
    if options.device.startswith("cuda") and not torch.cuda.is_available():
        parser.error("torch sees no NVIDIA GPU here; `--device cpu --small` shows that the command runs")
    if options.seconds is not None and not options.seconds > 0:
        parser.error("--seconds must be above 0")
    if options.small and options.device == "cpu":
        torch.set_num_threads(1)  # small sums are slower in two threads
    plan = _as_wished(plan_of(options.device, small=options.small, seconds=options.seconds), options)

    def keep(tables: list[Results]) -> None:  # after each part: what comes later may take too long
        if options.table:
            options.table.write_text(told_in_markdown(plan, tables))
        if options.json:
            options.json.write_text(json.dumps({**machine(plan), "tables": [vars(one) for one in tables]}, indent=1))

    tables, failed = measured(plan, options.parts, keep)
    print(told_in_markdown(plan, tables))
    for name, why in failed.items():
        print(f"{name} failed: {why}", file=sys.stderr)
    return 1 if failed else 0


def _as_wished(plan: Plan, options: argparse.Namespace) -> Plan:
    wished = {"ways": options.ways, "dtypes": options.numbers, "batches": options.batches}
    if options.sizes:
        wished["shapes"] = [SHAPES[size] for size in options.sizes]
    return replace(plan, **{name: value for name, value in wished.items() if value})


def measured(
    plan: Plan, parts: list[str], keep: Callable[[list[Results]], None]
) -> tuple[list[Results], dict[str, str]]:
    """Return the tables, and which parts failed, each with its error. `keep` is called after each part."""
    tables, failed = [], {}
    console = Console(stderr=True)
    columns = (*Progress.get_default_columns()[:2], MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, transient=True, console=console) as bar:
        all_parts = bar.add_task("parts", total=len(parts))
        for name in parts:
            task = bar.add_task(name, total=None)
            try:
                tables.append(PARTS[name](plan, lambda task=task: bar.advance(task)))  # type: ignore[misc]
            except (Exception, SystemExit) as error:  # time on a GPU is dear: the other parts go on
                console.print(traceback.format_exc(), markup=False)
                failed[name] = in_short(error)
            keep(tables)
            bar.remove_task(task)
            bar.advance(all_parts)
    return tables, failed


def machine(plan: Plan) -> dict[str, Any]:
    """Return the card, the versions and the command."""
    found = {
        "device": plan.device,
        "card": "no GPU",
        "command": shlex.join(["python", "-m", "benchmarks.gpu", *sys.argv[1:]]),
    }
    if plan.is_gpu:
        card = torch.cuda.get_device_properties(torch.device(plan.device))
        found |= {"card": f"{card.name}, {card.total_memory / 2**30:.0f} GiB", "cuda": str(torch.version.cuda)}
    versions = {name: version for name in PACKAGES if (version := _version(name))}
    return {
        **found,
        "processor": platform.processor() or platform.machine(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        **versions,
    }


def told_in_markdown(plan: Plan, tables: list[Results]) -> str:
    """Return the heading and the tables."""
    return "\n".join([heading(plan), *(table.markdown() for table in tables)])


def heading(plan: Plan) -> str:
    """Return the lines above the tables."""
    told = machine(plan)
    command, card = told.pop("command"), told.pop("card")
    rest = ", ".join(f"{name} {value}" for name, value in told.items())
    warning = "\nSmall sizes: these figures only show that the command runs.\n" if plan.small else ""
    return f"## {card}\n\n`{command}`\n\n{rest}\n{warning}"


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""


if __name__ == "__main__":
    sys.exit(main())

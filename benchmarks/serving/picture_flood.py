"""Does a flood of large pictures for one model make callers of another model wait?

    python -m benchmarks.serving.picture_flood

A service of its own serves the quickstart's digits twice, as `digits` and as `other`. One caller asks `other` without a
pause, in several forms, first alone and then while six callers send `digits` pictures of 4,090 x 4,090 pixels in 2 kB.
`limits.image_pixels` is 16,777,216 so that they are taken; `--default` leaves it out, and they are refused.
"""

import argparse
import base64
import io
import json
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import yaml
from PIL import Image
from rich.console import Console
from rich.table import Table

from benchmarks.serving.client import Load, json_bodies, run, settle
from tests.conftest import ROOT, digit_rows
from tests.system.conftest import Service

FLOODED, OTHER = "digits", "other"
FLOOD_CALLERS = 6
SIDE = 4090


def png(pixels: np.ndarray, mode: str = "L") -> str:
    """A picture as callers send it."""
    buffer = io.BytesIO()
    Image.fromarray(pixels).convert(mode).save(buffer, "PNG", optimize=True)
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode()


def forms(digit: np.ndarray) -> dict[str, Any]:
    """One digit in every form in which `other` is asked."""
    eight = np.rint(digit * 255).astype(np.uint8)

    def enlarged(side: int) -> np.ndarray:
        return np.asarray(Image.fromarray(eight).resize((side, side), Image.Resampling.BICUBIC))

    return {
        "numbers": digit.tolist(),
        "PNG of 8 x 8": png(eight),
        "PNG of 500 x 500": png(enlarged(500)),
        "PNG of 2,000 x 2,000": png(enlarged(2000)),
    }


@contextmanager
def served(*, default: bool) -> Iterator[tuple[Service, np.ndarray]]:
    """A service of two models, and a digit."""
    with tempfile.TemporaryDirectory(prefix="demur-bench-") as folder:
        digits = Path(folder)
        subprocess.run([sys.executable, ROOT / "deploy/models/digits/parts.py", digits], check=True)
        service = Service(digits)
        content = yaml.safe_load((service.folder / "demur.yaml").read_text())
        content["models"][OTHER] = content["models"][FLOODED]
        if not default:
            content["limits"] = {"image_pixels": 4096 * 4096}
        (service.folder / "demur.yaml").write_text(yaml.safe_dump(content))
        try:
            service.start()
            yield service, np.array(digit_rows(digits)[0]["input"], dtype=np.float32)
        finally:
            service.remove()


def gateway_megabytes(service: Service) -> float:
    """What the gateway has in memory."""
    return max(
        process.memory_info().rss / 1e6
        for process in service.processes()
        if "ServeReplica:demur:Gateway" in " ".join(process.cmdline())
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=5.0, help="of each measurement")
    parser.add_argument(
        "--rounds", type=int, default=3, help="how often it is measured alone and in the flood, in turns"
    )
    parser.add_argument("--forms", type=int, default=9, help="how many of the forms")
    parser.add_argument("--callers", type=int, default=FLOOD_CALLERS)
    parser.add_argument("--default", action="store_true", help="leave `limits.image_pixels` at its default")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    with served(default=options.default) as (service, digit), ProcessPoolExecutor(2, get_context("spawn")) as pool:
        url = f"{service.url}/v1/predict"

        def asked(value: Any, seconds: float, model: str = OTHER, callers: int = 1) -> Load:
            return Load(url, json_bodies([{"model": model, "input": value}]), callers, seconds)

        flood = asked(png(np.zeros((SIDE, SIDE), np.uint8), "1"), options.seconds + 2, FLOODED, options.callers)
        for form, value in list(forms(digit).items())[: options.forms]:
            pool.submit(run, asked(value, 2.0)).result()
            alone, during, flooded, megabytes = [], [], Counter[int](), 0.0
            for _ in range(options.rounds):
                alone.append(pool.submit(run, asked(value, options.seconds)).result())
                flooding = pool.submit(run, flood)
                settle(1.0)
                during.append(pool.submit(run, asked(value, options.seconds)).result())
                megabytes = max(megabytes, gateway_megabytes(service))
                flooded.update(flooding.result().statuses)
                settle(2.0)
            rows.append(
                {
                    "form": form,
                    **{f"alone_p{q}": median(seen.milliseconds(q) for seen in alone) for q in (50, 99)},
                    **{f"during_p{q}": median(seen.milliseconds(q) for seen in during) for q in (50, 99)},
                    "refused": sum(n for seen in during for status, n in seen.statuses.items() if status != 200),
                    "flood": dict(flooded),
                    "gateway_megabytes": megabytes,
                }
            )
            print(json.dumps(rows[-1]), flush=True)
        said = service.said()[-500:]
    table = Table()
    columns = (
        "other is asked with",
        "p50 ms alone",
        "in the flood",
        "ratio",
        "p99 ms alone",
        "in the flood",
        "flood",
        "MB",
    )
    for column in columns:
        table.add_column(column, justify="left" if column.startswith("other") else "right")
    for row in rows:
        table.add_row(
            row["form"],
            f"{row['alone_p50']:.1f}",
            f"{row['during_p50']:.1f}",
            f"{row['during_p50'] / row['alone_p50']:.2f}",
            f"{row['alone_p99']:.1f}",
            f"{row['during_p99']:.1f}",
            ", ".join(f"{n:,} x {status}" for status, n in sorted(row["flood"].items())),
            f"{row['gateway_megabytes']:,.0f}",
        )
    Console(width=160).print(table)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1))
    assert "Traceback" not in said, said


if __name__ == "__main__":
    main()

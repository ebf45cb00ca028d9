"""The table of docs/reliability.md from what a run of the suite wrote: `python -m tests.faults.table FILE`."""

import json
import math
import sys
from pathlib import Path

HEAD = ("fault", "load", "acknowledged", "lost", "doubled", "errors that callers met", "longest silence", "recovery")


def row(told: dict) -> list[str]:
    troubles = ", ".join(f"{_times(n)} {what}" for what, n in sorted(told["troubles"].items())) or "none"
    return [
        told["fault"],
        f"{told['callers']} callers, {told['seconds']:.0f} s",
        f"{told['acknowledged']:,} ({told['held']:,} held)",
        str(told["lost"]),
        str(told["doubled"]),
        troubles,
        f"{told['silence']:.1f} s",
        f"{told['recovery']:.1f} s" if math.isfinite(told["recovery"]) else "not while it was watched",
    ]


def _times(n: int) -> str:
    return "once" if n == 1 else f"{n:,} times"


def main() -> None:
    rows = [json.loads(line) for line in Path(sys.argv[1]).read_text().splitlines()]
    print("| " + " | ".join(HEAD) + " |")
    print("|---" * len(HEAD) + "|")
    for told in rows:
        print("| " + " | ".join(row(told)) + " |")


if __name__ == "__main__":
    main()

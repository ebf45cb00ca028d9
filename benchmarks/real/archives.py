"""Compressed files of stored rows, one dictionary for each line."""

import csv
import gzip
import json
from pathlib import Path
from typing import Any


def csv_rows(path: Path) -> list[dict[str, str]]:
    """The lines of a .csv.gz under its header; what is blank is an empty text."""
    with gzip.open(path, "rt", newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def json_rows(path: Path) -> list[dict[str, Any]]:
    """The objects of a .jsonl.gz."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]

"""A command that makes a few tables of a document and leaves the others alone."""

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.real.document import with_tables


def options_of(doc: str, arguments: Sequence[str] | None) -> argparse.Namespace:
    """`data`, the folder of stored outputs, and `write`, the document or None."""
    parser = argparse.ArgumentParser(description=doc.split("\n", maxsplit=1)[0])
    parser.add_argument("--data", type=Path, default=Path("../shared/data"), help="folder of stored model outputs")
    parser.add_argument("--write", type=Path, help="document whose tables are replaced")
    return parser.parse_args(arguments)


def put(tables: Mapping[str, str], write: Path | None) -> None:
    """Print the tables, or put them into a document that shows them."""
    if write is None:
        print("\n\n".join(f"## {name}\n\n{text}" for name, text in tables.items()))
        return
    write.write_text(with_tables(write.read_text(encoding="utf-8"), tables, partly=True), encoding="utf-8")
    print(f"{write} is written.")

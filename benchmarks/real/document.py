"""Tables put into a document that people write, each between two markers."""

import re
from collections.abc import Mapping


class NoSuchTable(ValueError):
    """The document asks for a table that is not made, or does not show one that is. Correct its markers."""


def with_tables(document: str, tables: Mapping[str, str]) -> str:
    """Replace what stands between `<!-- table: NAME -->` and `<!-- end -->`."""
    shown = re.findall(r"<!-- table: (.+?) -->", document)
    if sorted(shown) != sorted(tables):
        raise NoSuchTable(f"the document shows {', '.join(sorted(shown))}; made are {', '.join(sorted(tables))}")

    def filled(match: re.Match[str]) -> str:
        return f"{match[1]}\n\n{tables[match[2]]}\n\n<!-- end -->"

    return re.sub(r"(<!-- table: (.+?) -->).*?<!-- end -->", filled, document, flags=re.DOTALL)

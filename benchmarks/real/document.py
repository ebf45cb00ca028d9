"""Tables put into a document that people write, each between two markers."""

import re
from collections.abc import Mapping


class NoSuchTable(ValueError):
    """The document asks for a table that is not made, or does not show one that is. Correct its markers."""


def with_tables(document: str, tables: Mapping[str, str], *, partly: bool = False) -> str:
    """Replace what stands between `<!-- table: NAME -->` and `<!-- end -->`; `partly` leaves the other tables alone."""
    shown = re.findall(r"<!-- table: (.+?) -->", document)
    if sorted(shown) != sorted(tables) and not (partly and set(tables) <= set(shown)):
        raise NoSuchTable(f"the document shows {', '.join(sorted(shown))}; made are {', '.join(sorted(tables))}")

    def filled(match: re.Match[str]) -> str:
        return f"{match[1]}\n\n{tables[match[2]]}\n\n<!-- end -->" if match[2] in tables else match[0]

    return re.sub(r"(<!-- table: (.+?) -->).*?<!-- end -->", filled, document, flags=re.DOTALL)

"""Addresses in a chat that is passed on. Whoever serves the endpoint would fetch them from within its own network, in
the name of a caller who may have no way into it."""

from collections.abc import Mapping
from typing import Any

from demur.serve.contract.inputs import InvalidRequest

WORDS, METADATA = "text", "metadata"
"""Keys where an address is only mentioned."""

FAR_ENOUGH = 64
"""Characters within which an address says how it is fetched."""

LONGEST_PLACE = 200


def check_addresses(content: Mapping[str, Any]) -> None:
    """Raise `InvalidRequest` for the first picture, sound or file of a request that is not in it, but an address.

    Looked at are keys whose names end in `url` or `uri`, wherever they stand, and all texts of a part of a message but
    its words: endpoints differ in how they name the place of an address.
    """
    waiting: list[tuple[tuple[str, ...], Any, bool]] = [((), content, False)]
    while waiting:
        steps, inside, in_part = waiting.pop()
        in_part = in_part or steps[-1:] == ("content",)
        for name, value in enumerate(inside) if isinstance(inside, list) else inside.items():
            key = str(name)
            if isinstance(value, list | dict):
                waiting += [] if key == METADATA else [((*steps, key), value, in_part)]
            elif isinstance(value, str) and key != WORDS and _is_address(key, value, in_part=in_part):
                place = ".".join((*steps, key))[:LONGEST_PLACE]
                raise InvalidRequest(
                    f"{place}: addresses are not passed on, since the endpoint would fetch them; send the picture or"
                    " file itself, in a data: URL, or let the operator of the service set `chat.bounds.addresses`"
                )


def _is_address(key: str, value: str, *, in_part: bool) -> bool:
    if value[:5].lower() == "data:":
        return False
    if key.lower().endswith(("url", "uri")):
        return True
    scheme, found, _ = value[:FAR_ENOUGH].lstrip().partition("://")
    return in_part and bool(found) and " " not in scheme

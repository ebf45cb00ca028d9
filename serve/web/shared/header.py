"""What the header of every page shows: the doors of the service, where one is, and who one is."""

from typing import Any
from urllib.parse import quote

from fastapi import Request

from demur.serve.access.caller import access_is_on
from demur.serve.web.shared.doors import doors_of
from demur.serve.web.shared.look import root_of


def header_of(request: Request, *, top: str, here: str, name: str) -> dict[str, Any]:
    """Return the values that the template page.html needs. `top` is the prefix of the whole service, `here` the name of
    the door behind which the page lies, and `name` who asks, empty where nobody knows."""
    path = f"{root_of(request)}{request.scope['path'].removeprefix(root_of(request))}"
    doors = doors_of(request)
    stranger = access_is_on(request.scope) and not name
    back = quote(path, safe="/") if request.method == "GET" else ""
    return {
        "root": root_of(request),
        "top": top,
        "doors": doors,
        "opened": {door.name for door in doors},
        "here": here,
        "at_door": any(f"{top}{door.path}" == path for door in doors),
        "reviewer": name,
        "hello": f"{top}/review/hello",
        "login": f"{top}/review/login?back={back}" if stranger else "",
    }

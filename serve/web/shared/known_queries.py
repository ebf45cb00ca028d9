"""Parameters of an address that no route knows: they are refused, for whoever wrote one believes that it counts."""

from fastapi import Request
from fastapi.routing import APIRoute

from demur.library.nearest import one_of
from demur.serve.contract.inputs import InvalidRequest


async def only_known(request: Request) -> None:
    """Raise `InvalidRequest` for a parameter behind the `?` that the application's document does not have."""
    route = request.scope.get("route")
    if not request.query_params or not isinstance(route, APIRoute) or not route.include_in_schema:
        return
    told = request.app.openapi()["paths"].get(route.path_format, {}).get(request.method.lower(), {})
    known = [one["name"] for one in told.get("parameters", ()) if one["in"] == "query"]
    for name in request.query_params:
        if name not in known:
            what = one_of(name, known) if known else f"{name!r} is not known; this address takes no parameters"
            raise InvalidRequest(f"parameters: {what}")

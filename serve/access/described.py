"""What an OpenAPI document says of who gets in, so that generated clients know where a key goes, and of who is refused
before any operation."""

from typing import Any

from demur.serve.access.needs import OPEN, Doors, Needs

BEARER, API_KEY, SESSION = "bearer", "api_key", "session"


def describe_access(document: dict[str, Any], needs: Needs, *, cookie: str | None = None) -> None:
    """Add the ways in to a document, and to each operation which scope it needs. `cookie` is the name of that with a
    session, where people come."""
    schemes: dict[str, Any] = {
        BEARER: {"type": "http", "scheme": "bearer", "description": "A key that `demur keys make` has made."},
        API_KEY: {"type": "apiKey", "in": "header", "name": "X-Api-Key", "description": "The same key."},
    }
    if cookie is not None:
        schemes[SESSION] = {"type": "apiKey", "in": "cookie", "name": cookie, "description": "Of who has logged in."}
    document.setdefault("components", {})["securitySchemes"] = schemes
    doors = Doors(needs)
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            scope = doors.needs(method.upper(), path)
            if scope is OPEN:
                operation["security"] = []
                continue
            operation["security"] = [{name: []} for name in schemes]
            told = operation.get("description", "")
            operation["description"] = f"{told}\n\nNeeds the scope `{scope}`.".strip()


REFUSALS = {
    "403": "A page of another site sent this, or the host is not one of this service",
    "415": "The body was sent as a form; send it with `Content-Type: application/json`",
}

PROBLEM = {"application/json": {"schema": {"$ref": "#/components/schemas/ProblemResponse"}}}


def describe_refusals(document: dict[str, Any]) -> None:
    """Add what `BrowserGuard` refuses to each operation, in the form in which the operation tells of other problems."""
    for operation in (one for operations in document["paths"].values() for one in operations.values()):
        responses: dict[str, Any] = operation["responses"]
        problems = (told["content"] for status, told in responses.items() if status >= "400" and "content" in told)
        shape = next(problems, PROBLEM)
        for status in REFUSALS if "requestBody" in operation else ["403"]:
            responses.setdefault(status, {"description": REFUSALS[status], "content": shape})

"""What stands at `/`: where everything else is. It says the same to everybody, with a key or without."""

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse, RedirectResponse

from demur.serve.web.shared.look import root_of

PLACES = {
    "docs": "/docs",
    "openapi": "/openapi.json",
    "health": "/healthz",
    "review": "/review/",
    "audit": "/audit/",
}

router = APIRouter()


@router.get("/", include_in_schema=False)
def front_page(request: Request) -> Response:
    """Send a browser to the description of the API; tell everybody else the paths of what there is."""
    root = root_of(request)
    if "text/html" in request.headers.get("accept", ""):
        return RedirectResponse(f"{root}/docs", status_code=303)
    return JSONResponse({"service": "demur", **{name: f"{root}{path}" for name, path in PLACES.items()}})

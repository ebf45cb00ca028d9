"""The page that tells who was shown which case, when, through what, and how much of it."""

from collections.abc import Callable
from uuid import UUID

from fastapi import FastAPI, Request, Response

from demur.review import access
from demur.serve.access.caller import access_is_on, caller_of
from demur.serve.access.refusals import NotAllowed
from demur.serve.config.access import Scope
from demur.serve.contract.inputs import InvalidRequest
from demur.traffic.database import Database

MOST_SHOWN = 200

LARGEST = 2**63 - 1


def add_access_log(
    app: FastAPI, database: Database, *, lead_of: Callable[[Request], str], page: Callable[..., Response]
) -> None:
    """Add `/access-log`, for whoever has the scope `admin`; where nobody is asked who they are, for those who lead."""

    @app.get("/access-log", include_in_schema=False)
    def show(request: Request, case: str = "", person: str = "", before: str = "") -> Response:
        if not sees_access_log(request):
            raise NotAllowed("this needs the scope `admin`")
        if not access_is_on(request.scope):
            lead_of(request)
        with database.transaction() as connection:
            found = access.views(
                connection,
                case_id=_case(case.strip()),
                person=person.strip() or None,
                before=_number(before),
                limit=MOST_SHOWN + 1,
            )
        more = found[MOST_SHOWN - 1].id if len(found) > MOST_SHOWN else None
        asked = {"case": case.strip(), "person": person.strip()}
        return page(request, "access_log.html", views=found[:MOST_SHOWN], asked=asked, more=more, before=before)


def sees_access_log(request: Request) -> bool:
    """Whether the door lets this caller look at it."""
    caller = caller_of(request.scope)
    return not access_is_on(request.scope) or (caller is not None and caller.may(Scope.ADMIN))


def _case(told: str) -> UUID | None:
    try:
        return UUID(told) if told else None
    except ValueError:
        raise InvalidRequest("case: this is no id of a case") from None


def _number(told: str) -> int | None:
    if told and not (told.isascii() and told.isdigit() and int(told[:30]) <= LARGEST):
        raise InvalidRequest("before: this is no place in the log")
    return int(told) if told else None

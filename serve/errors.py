"""Every error that a caller can meet, with its HTTP status, in one table."""

from audit.monitors.alarms import AlarmNotFound
from audit.reports import ReportNotFound
from calibration_store.store import ArtifactNotFound
from review.cases import CaseNotFound
from review.outbox import DeliveryNotFound
from review.queue import ClaimLost, NotYours
from serve.gateway.batching import Overloaded
from serve.gateway.journal import Unwritable
from serve.gateway.road import ModelNotReady, UnknownModel
from serve.inputs import InvalidRequest, TooLarge
from serve.language.engine import EngineFailed
from serve.pages.visitor import FromElsewhere, NoReviewer
from serve.wire import MalformedBody
from traffic.database import DatabaseUnavailable
from traffic.log import KeyReused, RecordNotFound

STATUS: dict[type[Exception], int] = {
    MalformedBody: 400,
    InvalidRequest: 422,
    TooLarge: 413,
    UnknownModel: 404,
    RecordNotFound: 404,
    ReportNotFound: 404,
    CaseNotFound: 404,
    DeliveryNotFound: 404,
    AlarmNotFound: 404,
    KeyReused: 409,
    ClaimLost: 409,
    NoReviewer: 401,
    NotYours: 403,
    FromElsewhere: 403,
    Unwritable: 422,
    Overloaded: 503,
    ArtifactNotFound: 503,
    ModelNotReady: 503,
    EngineFailed: 503,
    DatabaseUnavailable: 503,
}

RETRY_AFTER_SECONDS = 1
"""Told to callers with every 503."""


def status_of(error: Exception) -> int:
    """The status of an error from the table; the nearest class counts. 500 for one that nobody foresaw."""
    return next((STATUS[kind] for kind in type(error).__mro__ if kind in STATUS), 500)


def problem_json(error: Exception) -> dict[str, str]:
    """`Problem`. Of an error that nobody foresaw, only that it happened is told; the log has the rest."""
    if status_of(error) == 500:
        return {
            "kind": "InternalError",
            "message": "something went wrong that should not; the service's log says what",
        }
    return {"kind": type(error).__name__, "message": str(error)}

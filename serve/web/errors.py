"""Every error that a caller can meet, with its HTTP status, in one table."""

import math
import random

from demur.audit.state.alarms import AlarmNotFound
from demur.audit.state.reports import ReportNotFound
from demur.audit.state.runs import TooManyAsked
from demur.calibration_store.artifact import ArtifactRefused
from demur.calibration_store.folder import ArtifactsUnreachable
from demur.calibration_store.model_jobs import JobNotFound, TooManyJobs
from demur.calibration_store.standing import RoleRefused
from demur.calibration_store.store import ArtifactNotFound, NothingToRollBack
from demur.review.cases import CaseNotFound
from demur.review.changes import MoreFit
from demur.review.outbox import DeliveryNotFound
from demur.review.queue import ClaimLost, NotYours
from demur.review.search import SearchTooWide
from demur.serve.access.refusals import FormRefused, FromElsewhere, NotAllowed, NotKnown, TooOften, UnknownHost
from demur.serve.access.sessions import LoginRefused
from demur.serve.contract.batching import Overloaded
from demur.serve.contract.commit import Unwritable
from demur.serve.contract.engine import EngineFailed
from demur.serve.contract.hosts import ModelNotReady, UnknownModel
from demur.serve.contract.inputs import InvalidRequest, TooLarge
from demur.serve.contract.wire import MalformedBody
from demur.serve.fitting.artifact_service import UnknownArtifact
from demur.serve.gateway.intake import BodyTooSlow
from demur.serve.gateway.redaction import RedactionFailed
from demur.serve.gateway.upstream import UpstreamFailed, UpstreamUnavailable
from demur.serve.telemetry.request_context import tell
from demur.serve.web.inference_protocol.versions import UnknownVersion
from demur.serve.web.native.deadline import DeadlinePassed
from demur.serve.web.shared.visitor import NoReviewer
from demur.traffic.database import DatabaseUnavailable
from demur.traffic.log import KeyReused, RecordNotFound
from demur.uncertainty.checks import InvalidInput

LONGEST_MESSAGE = 4000
"""Characters of a message. Some repeat a name that the caller sent, which may be as long as a body."""

STATUS: dict[type[Exception], int] = {
    MalformedBody: 400,
    InvalidRequest: 422,
    SearchTooWide: 422,
    TooLarge: 413,
    BodyTooSlow: 408,
    UnknownModel: 404,
    UnknownVersion: 404,
    RecordNotFound: 404,
    ReportNotFound: 404,
    CaseNotFound: 404,
    DeliveryNotFound: 404,
    AlarmNotFound: 404,
    KeyReused: 409,
    ClaimLost: 409,
    MoreFit: 409,
    NoReviewer: 401,
    NotKnown: 401,
    NotAllowed: 403,
    LoginRefused: 403,
    TooOften: 429,
    NotYours: 403,
    FromElsewhere: 403,
    UnknownHost: 403,
    FormRefused: 415,
    Unwritable: 422,
    UpstreamFailed: UpstreamFailed.status,
    UpstreamUnavailable: UpstreamUnavailable.status,
    Overloaded: 503,
    UnknownArtifact: 404,
    JobNotFound: 404,
    RoleRefused: 409,
    NothingToRollBack: 409,
    ArtifactRefused: 409,
    TooManyJobs: 429,
    TooManyAsked: 429,
    InvalidInput: 422,
    ArtifactsUnreachable: 503,
    ArtifactNotFound: 503,
    ModelNotReady: 503,
    EngineFailed: 503,
    DatabaseUnavailable: 503,
    RedactionFailed: 503,
    DeadlinePassed: 504,
}


def status_of(error: Exception) -> int:
    """The status of an error from the table; the nearest class counts. 500 for one that nobody foresaw."""
    return next((STATUS[kind] for kind in type(error).__mro__ if kind in STATUS), 500)


def retry_after(error: Exception) -> int | None:
    """After how many seconds to try again; None where waiting changes nothing. With a 503 it is drawn, so that those
    who were refused together do not come back together; a rate is its caller's own, and known, and so is
    a time that the endpoint of a model has named."""
    seconds: float = getattr(error, "seconds", 0.0)
    if isinstance(error, TooOften) or (isinstance(error, UpstreamUnavailable) and error.is_named):
        return math.ceil(seconds) or 1
    if status_of(error) != 503:
        return None
    return math.ceil(seconds + (1.0 + seconds) * random.random()) or 1  # noqa: S311  # nothing secret hangs on it


def problem_json(error: Exception) -> dict[str, str]:
    """`Problem`. Of an error that nobody foresaw, only that it happened is told; the log has the rest."""
    foreseen = status_of(error) != 500
    tell(type(error).__name__ if foreseen else "InternalError")
    if not foreseen:
        return {
            "kind": "InternalError",
            "message": "something went wrong that should not; the service's log says what",
        }
    kind = DatabaseUnavailable if isinstance(error, DatabaseUnavailable) else type(error)  # however it went away
    message = str(error)
    return {
        "kind": kind.__name__,
        "message": message if len(message) <= LONGEST_MESSAGE else f"{message[:LONGEST_MESSAGE]} ...",
    }

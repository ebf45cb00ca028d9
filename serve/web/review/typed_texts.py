"""What reviewers type in the place of replies, as it may be kept."""

from typing import Any

from demur.review import corrections
from demur.review.item import Case
from demur.serve.config.file import Config
from demur.serve.contract.corrections import checked_text
from demur.serve.contract.inputs import InvalidRequest
from demur.serve.gateway.redaction import Redaction
from demur.traffic import log
from demur.traffic.database import Connection
from demur.traffic.record import Answer


class TypedTexts:
    """Checks texts, and takes out of them what is taken out of replies (`redact`)."""

    def __init__(self, config: Config) -> None:
        self._models = config.models
        self._redaction = Redaction(config.redact) if config.redact else None

    def corrected(self, connection: Connection, case: Case, label: Answer | None, text: str) -> str:
        """Return a text in the place of a case's reply. Raises `InvalidRequest` for one that does not fit, and where
        the reply is no longer kept."""
        if not corrections.is_reply_kept(connection, case.id):
            raise InvalidRequest("text: the reply is no longer kept, so no other one is; leave it out")
        if case.model not in self._models:
            raise InvalidRequest(f"the model {case.model!r} is no longer served; its replies are not corrected")
        reply = log.find_one(connection, case.record_id).reply
        task = self._models[case.model].task
        return self._redacted(checked_text(text, label, case.model, task, reply["text"] if reply else None))

    def storable(self, draft: dict[str, Any]) -> dict[str, Any]:
        """Return what somebody typed and has not sent."""
        return {**draft, "text": self._redacted(draft["text"])} if draft.get("text") else draft

    def _redacted(self, text: str) -> str:
        return text if self._redaction is None else self._redaction.text(text)

"""OpenAI's chat completions: what is given back, with the decision beside it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import BaseModel, Field

from demur.policies.decision import Action
from demur.serve.config.file import ModelConfig
from demur.serve.contract import wire
from demur.traffic.record import Cost, Record


class ChatDecision(BaseModel):
    """What was decided about the reply."""

    action: Literal["answer", "review", "abstain"] = Field(
        description="`answer`: the reply may be relied on. `review`: a person is asked. `abstain`: nobody is. Unless it"
        " is `answer`, the message is not the model's reply but the configured words, or what people said of it while"
        " the request waited (`outcome`)."
    )
    abstained: bool
    confidence: float | None = Field(description="Calibrated probability that the reply is right.")
    scores: dict[str, float | None] = Field(description="Uncertainty: higher is less sure. Null where undefined.")
    set: list[str] = Field(description="What could not be ruled out of the reply: `right`, `wrong`.")
    reason: str
    id: str = Field(description="Of the record; /v1/predictions/{id} says what became of it.")
    artifact: str | None = Field(description="What was fitted, and decided this. Null if no model answered.")
    cost: wire.CostView | None = Field(description="Of every model that was asked, samples and ratings included.")
    outcome: wire.OutcomeView | None = Field(
        description="What people said of a reply that was held, where the request waited for them (`wait_seconds`). The"
        " message is then the model's reply if it is `right`, and the text that they wrote in its place if it is"
        " `wrong`."
    )


class ReplyMessage(BaseModel):
    role: Literal["assistant"]
    content: str
    refusal: str | None = Field(description="The same words as `content`, where the reply is held; else null.")


class Choice(BaseModel):
    index: int
    message: ReplyMessage
    logprobs: None
    finish_reason: Literal["stop", "length", "content_filter"] = Field(
        description="`content_filter`: the reply is held, and the message is not the model's."
    )


class Usage(BaseModel):
    prompt_tokens: int
    completion_tokens: int
    total_tokens: int


class ChatCompletion(BaseModel):
    """A chat completion, with the decision beside it."""

    id: str
    object: Literal["chat.completion"]
    created: int
    model: str
    choices: list[Choice]
    usage: Usage | None = Field(description="Everything that was spent, samples and ratings included; null if unknown.")
    system_fingerprint: str | None = Field(description="The artifact that decided.")
    demur: ChatDecision


class ListedModel(BaseModel):
    id: str
    object: Literal["model"]
    created: int = Field(description="0: it is not noted.")
    owned_by: str


class ModelList(BaseModel):
    object: Literal["list"]
    data: list[ListedModel]


class ChatProblem(BaseModel):
    """What is wrong, in the shape of OpenAI's errors."""

    message: str
    type: Literal["invalid_request_error", "server_error"]
    param: str | None
    code: str = Field(description="The `kind` that other routes tell.")


class ChatProblemResponse(BaseModel):
    error: ChatProblem


@dataclass(frozen=True, kw_only=True)
class HeldWords:
    """What is said in the place of a reply that is held."""

    review: str
    abstain: str
    outcome: Mapping[str, Any] | None = None
    """`OutcomeView`: what people have said of the reply meanwhile; None where nobody waited for them, or has spoken."""

    @classmethod
    def of(cls, model: ModelConfig) -> "HeldWords":
        return cls(review=model.chat.refusal, abstain=model.chat.abstention)

    def words(self, record: Record) -> str | None:
        """None where there is a text that may be given."""
        if self.text(record) is not None:
            return None
        return self.abstain if record.action == Action.ABSTAIN else self.review

    def text(self, record: Record) -> str | None:
        """The text that may be given: the reply, or what people wrote in its place. None where it is held."""
        reply = None if record.reply is None else record.reply["text"]
        if self.outcome is None:
            return reply if record.action == Action.ANSWER else None
        return reply if self.outcome["label"] == "right" else self.outcome["text"]


def completion_json(record: Record, held: HeldWords) -> dict[str, Any]:
    """`ChatCompletion` of a record. What is held is not in it."""
    words = held.words(record)
    message = {"role": "assistant", "content": said(record, held), "refusal": words}
    return {
        "id": completion_id(record.id),
        "object": "chat.completion",
        "created": int(record.created_at.timestamp()),
        "model": record.model,
        "choices": [{"index": 0, "message": message, "logprobs": None, "finish_reason": finish_reason(record, held)}],
        "usage": usage_json(record.cost),
        "system_fingerprint": record.artifact,
        "demur": decision_json(record, held),
    }


def said(record: Record, held: HeldWords) -> str:
    text, words = held.text(record), held.words(record)
    return text if text is not None else str(words)


def finish_reason(record: Record, held: HeldWords) -> str:
    if held.words(record) is not None:
        return "content_filter"
    ours = record.reply is not None and held.text(record) == record.reply["text"]
    return record.reply["finish_reason"] if ours and record.reply else "stop"


def decision_json(record: Record, held: HeldWords) -> dict[str, Any]:
    """`ChatDecision`."""
    return {
        "action": record.action,
        "abstained": record.action != Action.ANSWER,
        "confidence": record.confidence,
        "scores": record.scores,
        "set": wire.set_of(record),
        "reason": record.reason,
        "id": str(record.id),
        "artifact": record.artifact,
        "cost": wire.cost_json(record.cost),
        "outcome": held.outcome,
    }


def decision_headers(record: Record) -> dict[str, str]:
    """Return the decision as headers, for whoever does not read bodies. Without a confidence there is no header for
    it."""
    headers = {"X-Demur-Action": record.action, "X-Demur-Id": str(record.id)}
    return headers if record.confidence is None else {**headers, "X-Demur-Confidence": f"{record.confidence:.6g}"}


def usage_json(cost: Cost | None) -> dict[str, int] | None:
    if cost is None:
        return None
    written, read = cost["completion_tokens"], cost["prompt_tokens"]
    return {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}


def completion_id(of: Any) -> str:
    return f"chatcmpl-{of}"


def models_json(names: list[str]) -> dict[str, Any]:
    """`ModelList`."""
    return {"object": "list", "data": [model_json(name) for name in names]}


def model_json(name: str) -> dict[str, Any]:
    """`ListedModel`."""
    return {"id": name, "object": "model", "created": 0, "owned_by": "demur"}

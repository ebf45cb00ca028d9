"""What a webhook tells, in words for people: for a channel of Slack or Teams, or as a mail.

Labels, groups, comments and what models say come from outside. They stand in a message as plain text and as nothing
else: no markup, no mention, no link, no header. Hidden characters are spelled out, and long texts are cut."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from email.headerregistry import Address
from email.message import EmailMessage
from email.policy import SMTP
from typing import Any
from uuid import UUID

from demur.audit.visible import visible
from demur.serve.config.webhooks import MailConfig

LONGEST = 300
"""Characters of each value."""

TITLES = {
    "review.resolved": "A case of {model} is decided",
    "review.overdue": "A case of {model} is overdue",
    "review.expired": "A case of {model} has ended without an answer",
    "review.withdrawn": "A case of {model} was withdrawn",
    "audit.alarm": "Alarm about {model}",
}
OTHER = "News of a case of {model}"


@dataclass(frozen=True, kw_only=True, slots=True)
class WebhookMessage:
    """What is told, before it takes the form of a receiver."""

    title: str
    facts: tuple[tuple[str, str], ...]
    """Names and values, each on one line."""

    link: str | None
    link_words: str


def message_of(
    body: Mapping[str, Any], *, case_id: UUID | None = None, service_url: str | None = None
) -> WebhookMessage:
    """Return what a delivery says, from its JSON. `service_url` is where people open the service; without it there is
    no link."""
    data = body["data"]
    model = _plain(data.get("model"))
    title = TITLES.get(body["type"], OTHER).format(model=model)
    if body["type"] == "audit.alarm":
        action = {"notify": "nothing but this message", "tighten": "fewer answers", "hold_all": "everything is held"}
        facts = {
            "What": data.get("words"),
            "Artifact": data.get("artifact"),
            "What it does": action.get(data.get("action"), data.get("action")),
            "Since": data.get("raised_at"),
        }
        return _message(title, facts, service_url and f"{service_url}/audit/monitors", "Open the monitors")
    outcome = data.get("outcome") or {}
    if body["type"] == "review.overdue":  # people are still to answer it, perhaps blindly, and they read along
        data = {**data, "prediction": None, "confidence": None}
    facts = {
        "People say": _answer(outcome["label"]) if outcome else None,
        "Who": outcome.get("author"),
        "Why it is wrong": ", ".join(outcome.get("codes") or ()) or None,
        "The model said": None if data.get("prediction") is None else _answer(data["prediction"]),
        "Confidence": None if data.get("confidence") is None else f"{data['confidence']:.0%}",
        "Group": data.get("group"),
        "When": body.get("timestamp"),
    }
    if body["type"] == "review.resolved" and not outcome:
        facts = {"People say": "nobody could tell", **{name: told for name, told in facts.items() if told is not None}}
    link = f"{service_url}/review/cases/{case_id}" if service_url and case_id else None
    return _message(title, facts, link, "Open the case")


def slack_message(message: WebhookMessage) -> dict[str, Any]:
    """Return the body for an incoming webhook of Slack. Values stand in `plain_text`, in which nothing is parsed;
    `text`, which notifications show, holds none of them."""
    lines = "\n".join(f"{name}: {value}" for name, value in message.facts)
    blocks: list[dict[str, Any]] = [
        {"type": "header", "text": {"type": "plain_text", "text": message.title[:150], "emoji": False}},
    ]
    if lines:
        blocks.append({"type": "section", "text": {"type": "plain_text", "text": lines[:3000], "emoji": False}})
    if message.link:
        linked = {"type": "mrkdwn", "text": f"<{message.link}|{message.link_words}>", "verbatim": True}
        blocks.append({"type": "section", "text": linked})
    return {"text": _for_slack(message.title), "blocks": blocks, "unfurl_links": False, "unfurl_media": False}


def teams_message(message: WebhookMessage) -> dict[str, Any]:
    """Return the body for a workflow of Teams that posts adaptive cards. Values stand in text runs, in which Markdown
    is not read."""
    body: list[dict[str, Any]] = [_run({"text": message.title, "weight": "Bolder", "size": "Medium"})]
    body += [_run({"text": f"{name}: ", "weight": "Bolder"}, {"text": value}) for name, value in message.facts]
    card: dict[str, Any] = {
        "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
        "type": "AdaptiveCard",
        "version": "1.4",
        "body": body,
    }
    if message.link:
        card["actions"] = [{"type": "Action.OpenUrl", "title": message.link_words, "url": message.link}]
    kind = "application/vnd.microsoft.card.adaptive"
    return {"type": "message", "attachments": [{"contentType": kind, "contentUrl": None, "content": card}]}


def mail_of(message: WebhookMessage, mail: MailConfig, *, delivery_id: UUID, at: datetime) -> EmailMessage:
    """Return a mail of plain text. Each attempt of a delivery has the same `Message-ID`, so repeats can be told."""
    made = EmailMessage(policy=SMTP)
    made["Subject"] = f"demur: {message.title}"
    made["From"] = Address(addr_spec=mail.sender)
    made["To"] = [Address(addr_spec=one) for one in mail.to]
    made["Date"] = at
    made["Message-ID"] = f"<{delivery_id}@{mail.sender.rpartition('@')[2]}>"
    made["Auto-Submitted"] = "auto-generated"  # so that no vacation note answers it
    lines = [message.title, "", *(f"{name}: {value}" for name, value in message.facts)]
    made.set_content("\n".join([*lines, "", f"{message.link_words}: {message.link}"] if message.link else lines) + "\n")
    return made


def _message(title: str, facts: Mapping[str, Any], link: str | None, link_words: str) -> WebhookMessage:
    told = tuple((name, _plain(value)) for name, value in facts.items() if value is not None and value != "")
    return WebhookMessage(title=title, facts=told, link=link, link_words=link_words)


def _answer(label: Any) -> str:
    return label if isinstance(label, str) else ", ".join(map(str, label)) or "no label"


def _plain(value: Any) -> str:
    """One line of at most `LONGEST` characters, in which everything that is there can be seen."""
    text = visible(" ".join(str(value)[: 4 * LONGEST].split()))
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


def _for_slack(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _run(*inlines: dict[str, Any]) -> dict[str, Any]:
    return {"type": "RichTextBlock", "inlines": [{"type": "TextRun", **one} for one in inlines]}

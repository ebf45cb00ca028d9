"""A page on which anybody who may predict tries the models: draws, types, fills in a form or drops a file, and sees
what comes back and why. Without scripts it is forms, and the answer comes with the page."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl

from fastapi import APIRouter, Request, Response
from starlette.exceptions import HTTPException

from demur.serve.access.caller import access_is_on, caller_of
from demur.serve.config.access import Scope
from demur.serve.contract import wire
from demur.serve.contract.examples import Example
from demur.serve.contract.inputs import InputSpec, InvalidRequest
from demur.serve.contract.reading.picture_url import picture_url
from demur.serve.web.errors import problem_json, status_of
from demur.serve.web.front.plain_form import MOST_FIELDS, kind_of_form, request_of
from demur.serve.web.front.site import FrontSite, Site
from demur.serve.web.native.fast_path import form_of
from demur.serve.web.native.parts import body_of
from demur.serve.web.shared.doors import may
from demur.traffic.record import Answer, Record

GLANCE = 60
"""Characters of an example on its button."""

router = APIRouter(include_in_schema=False)


@router.get("/try/")
async def try_page(request: Request, site: Site, model: str = "") -> Response:
    return await _shown(request, site, model)


@router.post("/try/")
async def ask_and_show(request: Request, site: Site, model: str = "") -> Response:
    """Ask as a program does, and show the page with what came back. A file comes as `multipart/form-data`."""
    body = await body_of(request)
    truth: Answer | None = None
    try:
        caller, upload = caller_of(request.scope), form_of(request.scope)
        if upload is None:
            fields = _fields(body)
            if model not in _models(request, site) or (spec := await site.examples.spec(model)) is None:
                raise InvalidRequest("model: it does not serve right now, or you may not ask it")
            brings, truth = request_of(spec, fields, await site.examples.shown(model))
            body = wire.dump({"model": model, **brings})
        done = await site.handler.predict(body, None, caller, form=upload)
    except Exception as error:
        if (status := status_of(error)) == 500 and not isinstance(error, HTTPException):
            raise
        return await _shown(request, site, model, refusal=str(problem_json(error)["message"]), status=status)
    return await _shown(request, site, model, said=_said(done.record, truth))


async def _shown(
    request: Request,
    site: FrontSite,
    model: str,
    *,
    said: Mapping[str, Any] | None = None,
    refusal: str = "",
    status: int = 200,
) -> Response:
    models = _models(request, site)
    chosen = model if model in models else next(iter(models), "")
    spec = await site.examples.spec(chosen) if chosen else None
    shown = await site.examples.shown(chosen) if spec else []
    limit = await site.limit_of(chosen) if chosen else None
    reviews = may(request, Scope.REVIEW)
    facts = {
        "model": chosen,
        "kind": spec.kind if spec else "",
        "input": _what_it_takes(spec) if spec else {},
        "limit": limit,
        "examples": [_for_the_page(example) for example in shown],
        "key": access_is_on(request.scope),
        "reviews": reviews,
    }
    return site.page(
        request, "try.html", status=status, here="Try", models=models, chosen=chosen,
        unknown=model if model not in models else "", spec=spec, facts=facts, examples=shown, limit=limit,
        plain=kind_of_form(spec) if spec else "", buttons=[_on_button(example) for example in shown], said=said,
        refusal=refusal, reviews=reviews,
    )  # fmt: skip


def _models(request: Request, site: FrontSite) -> list[str]:
    caller = caller_of(request.scope)
    return [name for name in site.config.models if caller is None or caller.models is None or name in caller.models]


def _fields(body: bytes) -> dict[str, str]:
    try:
        told = parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=MOST_FIELDS, errors="strict")
    except ValueError:  # bytes that are no text, or too many fields
        raise InvalidRequest("the form cannot be read; load the page again") from None
    return dict(told)


def _said(record: Record, truth: Answer | None) -> dict[str, Any]:
    """What came back, and what is right about an example."""
    said = wire.prediction_json(record)
    prediction = said["prediction"]
    words = "nothing usable" if prediction is None else _in_words(prediction)
    return {**said, "words": words, "truth": None if truth is None else _in_words(truth)}


def _on_button(example: Example) -> dict[str, Any]:
    """What a button shows of an example: a picture, or its beginning."""
    value = example.body.get("input", example.body.get("output"))
    if picture := picture_url(value):
        return {"picture": picture, "text": ""}
    text = " ".join((value if isinstance(value, str) else wire.dump(value).decode()).split())
    return {"picture": None, "text": text if len(text) <= GLANCE else f"{text[:GLANCE]}…"}


def _what_it_takes(spec: InputSpec) -> dict[str, Any]:
    return {
        "channels": spec.channels,
        "height": spec.height,
        "width": spec.width,
        "options": spec.options,
        "pictures": spec.pictures,
        "columns": [
            {"name": name, "numeric": column.is_numeric, "values": list(column.values or ())}
            for name, column in spec.columns.items()
        ],
    }


def _for_the_page(example: Example) -> dict[str, Any]:
    return {"body": example.body, "label": _in_words(example.label)}


def _in_words(label: Answer) -> str:
    return label if isinstance(label, str) else ", ".join(label) or "no label"

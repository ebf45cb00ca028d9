"""What the page of one case shows, whether it is asked for or was sent ahead."""

from collections.abc import Mapping
from datetime import datetime
from math import isfinite
from typing import Any
from uuid import UUID

from demur.review.cases import CaseNotFound
from demur.review.item import ENDED
from demur.review.queue import NotYours
from demur.serve.web.review.answering import COMMANDS, REASONS, answering
from demur.serve.web.review.label_search import search_of
from demur.serve.web.review.offered import labels_on_page, offered_labels
from demur.serve.web.review.replies import shown_reply
from demur.serve.web.review.service import VisibleCase
from demur.serve.web.review.showing import showing
from demur.serve.web.review.similar_cases import can_be_compared
from demur.serve.web.review.site import ReviewSite
from demur.serve.web.review.small_picture import small_picture
from demur.serve.web.review.words import work


def case_values(
    site: ReviewSite,
    sight: VisibleCase,
    name: str,
    *,
    model: str = "",
    last: VisibleCase | None = None,
    find: str = "",
    typed: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return what the template case.html takes. `last`: what this person answered just before. `find` and `typed`:
    what a browser without scripts looks labels up with, and sends along."""
    served = site.config.models.get(sight.case.model)
    input = showing(sight.value)
    draft = {**(sight.draft or {}), **(typed or {})}
    before = [draft["label"]] if isinstance(draft.get("label"), str) else draft.get("label") or []
    sparse = served.task if served is not None and served.task.sparse else None
    found, offered, titles = [], [], {}
    if sparse is not None:
        found = [one.label for one in search_of(sparse.table).find(find)[0]] if find.strip() else []
        offered = offered_labels(sparse.table, sight.record if sight.shown else None, sight.output, before, found)
        own = [said.label for said in (*sight.opinions, *([sight.own] if sight.own else []))]
        titles = sparse.table.titles_of(labels_on_page(sight.record, [sight.case.label, *own, before]))
    words = site.config.review.words_for(sight.case.model)
    if sparse is None:
        titles = words.titles
    way = answering(served.task if served else None, len(input.options), offered, words)
    prediction = sight.record.prediction
    return {
        "sight": sight,
        "item": sight.case,
        "record": sight.record,
        "input": input,
        "small": small_picture(input.text) if input.kind == "picture" else None,
        "way": way,
        "draft": draft,
        "before": before,
        "find": find,
        "found": found,
        "titles": titles,
        "keys": way.keys,
        "words": words,
        "accepts": sight.mine and sight.shown and prediction is not None and prediction != [],
        "commands": COMMANDS,
        "reasons": REASONS,
        "writes": served is not None and served.task.writes,
        "exclusive": served is None or served.task.exclusive,
        "ended": sight.case.status in ENDED,
        "told": shown_reply(sight, words.codes),
        "lease_seconds": site.config.review.lease_seconds,
        "ahead_seconds": site.config.review.ahead_seconds,
        "model": model,
        "last": last,
        "progress": how_far(site, name) if sight.mine else "",
        "has_similar": can_be_compared(input),
        "people": sorted(site.config.review.people),
    }


def how_far(site: ReviewSite, name: str) -> str:
    """How far this person has come today, and how long what waits takes: the figure that the queue shows as well."""
    counts, progress = site.reviews.backlog(name), site.reviews.progress(name, midnight())
    left = counts.free + 1  # with the one that is shown
    hours = site.reviews.pace(name).hours_for(left)
    time = f", about {work(hours)} left" if isfinite(hours) else ""
    return f"{progress.answered + 1:,} of {progress.answered + left:,} today{time}"


def midnight() -> datetime:
    """When today began, where this service runs."""
    return datetime.now().astimezone().replace(hour=0, minute=0, second=0, microsecond=0)


def last_answer(site: ReviewSite, name: str, after: UUID | None) -> VisibleCase | None:
    """The case that this person answered just before, as they may see it now."""
    if after is None:
        return None
    try:
        sight = site.reviews.see(name, after)
    except (CaseNotFound, NotYours):
        return None
    return sight if sight.own else None


def keys_on(site: ReviewSite, sight: VisibleCase | None) -> Mapping[str, str]:
    """Return the key of each command on the page of a case; without one, as on the queue."""
    served = site.config.models.get(sight.case.model) if sight is not None else None
    if sight is None or served is None:
        return answering(None).keys
    words = site.config.review.words_for(sight.case.model)
    return answering(served.task, len(showing(sight.value).options), words=words).keys

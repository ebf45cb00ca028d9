"""How held predictions are brought before people: `review` in the configuration."""

from datetime import timedelta
from math import inf, isnan
from typing import Annotated, Literal

from pydantic import Field, model_validator

from demur.review.item import QueueOrder, ReviewerScope
from demur.serve.config.pydantic_words import written_as
from demur.serve.config.review_models import NO_WORDS, ReviewedModel
from demur.serve.config.settings import Section
from demur.serve.config.webhooks import WebhookConfig
from demur.traffic.record import Record

Name = Annotated[
    str,
    Field(min_length=1, max_length=100),
    written_as(r"^\S(.*\S)?$", "a name is on one line, without blanks before or after it"),
]

HIGHEST_PRIORITY = 9
"""That a caller or a rule may give."""

LATEST_DUE = timedelta(days=3650)
"""That a caller or a rule may give, from the decision on."""

End = Annotated[float, Field(allow_inf_nan=False)]
Words = Annotated[tuple[str, ...], Field(min_length=1)]


class Band(Section):
    """A range of a score, without its ends."""

    above: End | None = None
    below: End | None = None

    @model_validator(mode="after")
    def has_an_end(self) -> "Band":
        if self.above is None and self.below is None:
            raise ValueError("write `above`, `below` or both")
        if self.above is not None and self.below is not None and self.above >= self.below:
            raise ValueError(f"nothing is above {self.above:g} and below {self.below:g}")
        return self

    def holds(self, value: float | None, *, unknown: float) -> bool:
        """Whether a value lies in it; what is unknown counts as `unknown`."""
        known = unknown if value is None or isnan(value) else value
        return (self.above is None or known > self.above) and (self.below is None or known < self.below)

    @property
    def words(self) -> str:
        ends = (("above", self.above), ("below", self.below))
        return " and ".join(f"{name} {end:g}" for name, end in ends if end is not None)


class When(Section):
    """Which cases a rule is about; all that is written must hold."""

    models: Words | None = None
    groups: Words | None = None
    confidence: Band | None = None
    """Where it is unknown, `below` holds and `above` does not."""

    scores: dict[str, Band] = Field(default={})
    """Where a score is missing, `above` holds and `below` does not."""

    share: float = Field(default=1.0, gt=0, le=1)
    """Of the cases for which all else holds, the share that is drawn."""

    def holds(self, record: Record) -> bool:
        """Whether all holds for a record that is written here, but for the draw. Doubt is taken for the worst."""
        return (
            (self.models is None or record.model in self.models)
            and (self.groups is None or record.group in self.groups)
            and (self.confidence is None or self.confidence.holds(record.confidence, unknown=-inf))
            and all(band.holds(record.scores.get(name), unknown=inf) for name, band in self.scores.items())
        )

    @property
    def words(self) -> str:
        said = [] if self.share == 1 else [f"{self.share:.3g} of"]
        said.append(f"cases of {' or '.join(self.models)}" if self.models else "cases of every model")
        if self.groups:
            said.append(f"in group {' or '.join(self.groups)}")
        bands = {"confidence": self.confidence} if self.confidence else {}
        said += [f"with {name} {band.words}" for name, band in {**bands, **self.scores}.items()]
        return " ".join(said)


class ReviewRule(Section):
    """What holds for some cases. Of several rules that apply, the highest priority, the earliest due time and the
    most opinions count."""

    when: When = When()
    priority: int | None = Field(default=None, ge=0, le=HIGHEST_PRIORITY)
    due_minutes: float | None = Field(default=None, gt=0, le=LATEST_DUE / timedelta(minutes=1))
    opinions: int | None = Field(default=None, ge=1, le=9)

    @model_validator(mode="after")
    def says_something(self) -> "ReviewRule":
        if self.priority is None and self.due_minutes is None and self.opinions is None:
            raise ValueError("write what holds for these cases: `priority`, `due_minutes` or `opinions`")
        return self

    @property
    def due_after(self) -> timedelta | None:
        """From the decision on."""
        return None if self.due_minutes is None else timedelta(minutes=self.due_minutes)

    @property
    def words(self) -> str:
        """The rule as one sentence."""
        said = [] if self.priority is None else [f"priority {self.priority}"]
        said += [] if self.due_minutes is None else [f"due within {self.due_minutes:g} minutes"]
        said += [] if self.opinions is None else [f"{self.opinions} opinion{'s' if self.opinions > 1 else ''}"]
        return f"{self.when.words}: {', '.join(said)}"


class ProneConfig(Section):
    """Groups about whose cases people often disagree get more opinions."""

    disagreement_above: float = Field(ge=0, lt=1)
    """Share of the cases with several opinions on which these were not all the same."""

    at_least: int = Field(default=20, ge=1)
    """So many cases with several opinions must be known first."""

    opinions: int = Field(default=2, ge=2, le=9)


class Person(Section):
    """What somebody may see and do."""

    models: tuple[str, ...] | None = None
    groups: tuple[str, ...] | None = None
    adjudicates: bool = False
    """Decides where others disagree or cannot tell."""

    leads: bool = False
    """Sees the overview, and may withdraw cases, make them urgent, and keep them for a person."""

    @property
    def scope(self) -> ReviewerScope:
        return ReviewerScope(models=self.models, groups=self.groups, adjudicates=self.adjudicates)


class AdminName(str):
    """The name of somebody who has the scope `admin`: they may do all of it, whatever `people` says of the name. It is
    kept and compared like any name."""


class ReviewConfig(Section):
    lease_seconds: float = Field(default=600, gt=0)
    """How long a claimed case is kept for the person who claimed it. An open page prolongs it by itself."""

    undo_seconds: float = Field(default=10, ge=0)
    """How long an answer can be taken back, before it counts."""

    give_back_seconds: float = Field(default=3600, ge=0, le=30 * 86400)
    """How long a case that somebody gave back does not come to the same person by itself. Others get it at once."""

    ahead_seconds: float = Field(default=90, ge=0, le=3600)
    """How long the case that comes next is kept for somebody whose browser has it already; 0: none has."""

    order: QueueOrder = QueueOrder.AGE
    """What comes first, among cases of one priority and due time: `age` or `uncertainty`."""

    rules: tuple[ReviewRule, ...] = ()
    prone: ProneConfig | None = None
    agreement: Literal["majority", "unanimous"] = "majority"
    """What several opinions must come to; otherwise somebody decides who has not spoken yet."""

    at_due: Literal["escalate", "notify", "unanswered"] = "escalate"
    """What happens at the due time: the case comes before all others; only those who asked to be told are told; or it
    ends unanswered."""

    re_review: float = Field(default=0.0, ge=0, le=1)
    """Share of the resolved cases that a second person looks at, without being told what the first one said."""

    withdraw_known: bool = False
    """Whether a held case leaves the queue once a caller has told its outcome and nobody is at it. Spot checks and
    second looks stay: they measure."""

    most_waiting: int | None = Field(default=None, ge=1)
    """When so many cases are open, what the policy would hold is neither answered nor reviewed: `abstain`."""

    webhooks: tuple[WebhookConfig, ...] = ()
    """Other systems that are told what becomes of cases."""

    models: dict[str, ReviewedModel] = Field(default={})
    """What reviewers are given for the cases of a model, by its name."""

    people: dict[Name, Person] = Field(default={})
    """Who may review what. When nobody is named, everybody may do everything."""

    @model_validator(mode="after")
    def somebody_decides(self) -> "ReviewConfig":
        if self.people and not any(person.adjudicates for person in self.people.values()):
            raise ValueError(
                "people: nobody decides where others disagree or cannot tell; write `adjudicates: true` for somebody"
            )
        return self

    @model_validator(mode="after")
    def there_are_people_enough(self) -> "ReviewConfig":
        asked = {f"rules.{at}.opinions": rule.opinions for at, rule in enumerate(self.rules)}
        asked["prone.opinions"] = self.prone.opinions if self.prone else None
        for place, opinions in asked.items():
            if self.people and opinions and opinions > len(self.people):
                raise ValueError(
                    f"{place}: {opinions} people are to say something about a case, and {len(self.people)} are named in"
                    " `people`: it would wait for ever; name more, or ask for fewer"
                )
        return self

    def scope_of(self, name: str) -> ReviewerScope | None:
        """What this person may see and do; None where others are named and this one is not."""
        if not self.people or isinstance(name, AdminName):
            return ReviewerScope()
        person = self.people.get(name)
        return None if person is None else person.scope

    def words_for(self, model: str) -> ReviewedModel:
        """What reviewers are given for the cases of a model."""
        return self.models.get(model, NO_WORDS)

    def codes_of(self, model: str) -> tuple[str, ...]:
        """Why a reply of this model may be wrong, in the words of whoever configured it."""
        return self.words_for(model).codes

    def leads(self, name: str) -> bool:
        person = self.people.get(name)
        return not self.people or isinstance(name, AdminName) or (person is not None and person.leads)

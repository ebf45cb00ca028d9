"""What reviewers are given for the cases of one model: `review.models` in the configuration."""

from collections.abc import Mapping
from typing import Annotated

from pydantic import Field, field_validator

from demur.library.nearest import did_you_mean
from demur.serve.config.pydantic_words import written_as
from demur.serve.config.review_words import ModelWords, check_words
from demur.serve.config.task import TaskConfig

Code = Annotated[
    str,
    Field(min_length=1, max_length=60),
    written_as(r"^[^\x00-\x1f\x7f]+$", "control characters, such as line breaks and tabs, are not taken here"),
]


class ReviewedModel(ModelWords):
    codes: Annotated[tuple[Code, ...], Field(max_length=20)] = ()
    """For a task that writes texts: why a reply is wrong, in your words, such as `not true`. Reviewers tick those that
    hold."""

    @field_validator("codes")
    @classmethod
    def each_once(cls, codes: tuple[str, ...]) -> tuple[str, ...]:
        for at, code in enumerate(codes):
            if code != code.strip():
                raise ValueError(f"{code!r}: leave out the blanks before and after it")
            if code in codes[:at]:
                raise ValueError(f"{code!r} is there twice; write it once")
        return codes


NO_WORDS = ReviewedModel()


def check_reviewed_models(reviewed: Mapping[str, ReviewedModel], tasks: Mapping[str, TaskConfig]) -> None:
    """Raise `ValueError` for a model that is not served, for codes of one that writes no texts, and for words about
    labels that it does not have."""
    for name, told in reviewed.items():
        if name not in tasks:
            raise ValueError(
                f"review.models.{name}: there is no model {name!r}; there are: {', '.join(tasks)}"
                f"{did_you_mean(name, tasks)}"
            )
        if told.codes and not tasks[name].writes:
            raise ValueError(
                f"review.models.{name}.codes: they say why a reply is wrong, and {name!r} has a {tasks[name].kind}"
                " task, which writes none; leave them out"
            )
    check_words(reviewed, tasks)

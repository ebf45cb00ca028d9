"""`demur rank`: rate the inputs of a binary task by letting a model compare them two at a time (TOUR 2, 3.2)."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from demur.audit.metrics.ratings import Criterion
from demur.serve.commands.rank.instances import read_instances
from demur.serve.commands.rank.journal import Journal
from demur.serve.commands.rank.report import as_ratings, drawn, remarks
from demur.serve.commands.rank.rounds import Budget, Told, TournamentPlan, check_feasible, play
from demur.serve.config.file import DATA, BadConfig, Config, ModelConfig
from demur.serve.contract.engine import EngineFailed
from demur.serve.contract.inputs import InputLimits
from demur.serve.hosts.kinds import check_model
from demur.serve.hosts.language.anchors import Ratings
from demur.serve.hosts.language.kind import weights_fingerprint
from demur.serve.hosts.language.model import LanguageModel
from demur.serve.hosts.language.pair import PairJudge, PairResult, judge_fingerprint
from demur.serve.hosts.offline import OfflineModel
from demur.traffic.file_form import FileForm

RATINGS = "ratings.json"

AT_A_TIME = 512
"""Comparisons that are handed to the engine together."""

FEW = 5
"""Comparisons that may all be without a verdict by chance."""


class NoVerdicts(ValueError):
    """Not one reply of a round could be read. The message shows one, and says what to change."""


@dataclass(frozen=True, kw_only=True)
class RankingResult:
    """What `demur rank` found, and where it lies."""

    ratings: Ratings
    path: Path
    picture: Path
    remarks: list[str]


def rank_file(
    config: Config,
    name: str,
    data: Path,
    *,
    folder: Path,
    plan: TournamentPlan,
    budget: Budget,
    criterion: Criterion = "f1",
    anew: bool = False,
    form: FileForm | None = None,
    told: Told,
) -> RankingResult:
    """Let a configured model rank the rows of a file; write ratings.json and ratings.svg into `folder`.

    What was compared is kept in journal.jsonl there, and gone on with. Raises `BadConfig`, `BadDataFile`,
    `JournalRefused`, `NoVerdicts`, or `EngineFailed` where half of a round or more got no reply.
    """
    model = as_judge(config.model(name), name)
    limits = InputLimits(text_characters=config.limits.text_characters, image_pixels=config.limits.image_pixels)
    instances = read_instances(data, model.task.labels, limits, form)
    check_model(model)
    fingerprint = judge_fingerprint(model, weights_fingerprint(model))
    header = {"inputs": instances.sha256, "model or prompt": fingerprint, **plan.as_facts()}
    check_feasible(len(instances.distinct), plan, budget)
    with Journal(folder / "journal.jsonl", header, anew=anew) as journal:
        standing = play(instances.distinct, ModelJudge(model), journal, plan=plan, budget=budget, told=told)
    ratings = as_ratings(
        name, model.task.labels, instances, standing, plan=plan, judge=fingerprint, criterion=criterion
    )
    path, picture = folder / RATINGS, folder / "ratings.svg"
    path.write_text(ratings.model_dump_json(indent=1) + "\n", encoding="utf-8")
    picture.write_text(drawn(ratings), encoding="utf-8")
    return RankingResult(ratings=ratings, path=path, picture=picture, remarks=remarks(ratings))


def folder_of(config: Config, name: str) -> Path:
    """Where the ratings of a model lie: where it is configured to read them, if that is what we call the file."""
    rated = config.model(name).host.rated_by
    if rated and rated.ratings.name == RATINGS:
        return rated.ratings.parent
    folder, before = config.data / "rank" / name, DATA / "rank" / name
    if before.is_dir() and not folder.exists() and folder != before.resolve():  # what was compared cost something
        raise BadConfig(
            f"what was compared before lies in {before}, and is now kept in {folder}; move it there, or go on where it"
            f" is with --out {before}"
        )
    return folder


def as_judge(model: ModelConfig, name: str) -> ModelConfig:
    """The model as it compares: ratings that it may already be served with have no part in it."""
    if not model.host.is_language:
        raise BadConfig(f"models.{name} is a classifier, which cannot compare two inputs; name a language model")
    if model.task.kind != "binary":
        raise BadConfig(f"models.{name} has a {model.task.kind} task; only inputs of a binary one can be ranked")
    return model.model_copy(update={"host": model.host.model_copy(update={"tournament": None})})


class ModelJudge:
    """A configured language model, outside of the service."""

    def __init__(self, model: ModelConfig) -> None:
        self._model = OfflineModel(model)
        self._judge = PairJudge(model, cast(LanguageModel, self._model.model).engine)

    def __call__(self, pairs: Sequence[tuple[str, str]], advance: Callable[[], None]) -> list[PairResult | None]:
        return self._model.wait(self._all(pairs, advance))

    async def _all(self, pairs: Sequence[tuple[str, str]], advance: Callable[[], None]) -> list[PairResult | None]:
        places, failures = asyncio.Semaphore(AT_A_TIME), list[EngineFailed]()

        async def one(pair: tuple[str, str]) -> PairResult | None:
            async with places:
                try:
                    return await self._judge.compare(*pair)
                except EngineFailed as error:
                    failures.append(error)
                    return None
                finally:
                    advance()

        compared = await asyncio.gather(*(one(pair) for pair in pairs))
        if 2 * len(failures) >= len(pairs):
            raise EngineFailed(
                f"{failures[0]} ({len(failures)} of {len(pairs)} comparisons of a round got no reply; the rounds"
                " before it are kept, and the same command goes on from there)"
            )
        replies = [one.reply for one in compared if one]
        if len(replies) >= FEW and not any(one.side for one in compared if one):
            raise NoVerdicts(
                f"none of {len(replies)} replies says A or B; the first one is {replies[0][:200]!r}: change"
                " prompt.pair_template, or give a longer host.max_tokens"
            )
        return compared

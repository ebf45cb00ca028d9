"""New inputs rated against anchors: which anchors, which matches, what probability, and when nothing was said."""

import asyncio
import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import ClassVar

import numpy as np
import pytest
from pydantic import ValidationError

from demur.audit.metrics.calibration import ece
from demur.audit.metrics.discrimination import roc_auc
from demur.calibration_store.store import ArtifactStore
from demur.serve.commands.rank.ranking import rank_file
from demur.serve.commands.rank.rounds import Budget, TournamentPlan
from demur.serve.commands.score_cost import costs
from demur.serve.config.file import Config, with_absolute_paths
from demur.serve.config.hosts.tournament import TournamentConfig
from demur.serve.contract.model import ModelRequest
from demur.serve.fitting.fit import fit_model
from demur.serve.hosts.identity import identity_if_here, identity_of
from demur.serve.hosts.language.anchors import Anchors, BadRatings, read_ratings
from demur.serve.hosts.language.kind import weights_fingerprint
from demur.serve.hosts.language.model import LanguageModel
from demur.serve.hosts.language.pair import PairJudge, judge_fingerprint
from demur.serve.hosts.language.tournament import Tournament
from demur.uncertainty.generation import Generation, Usage
from demur.uncertainty.isotonic import fit_isotonic
from demur.uncertainty.scores import SCORES
from demur.uncertainty.tournament import update_ratings
from tests.serve.comparing import ComparingEngine, configured, drawn, judge_of, labelled, quiet, serve_with, write_rows


def ratings_file(path, ratings, *, judge="judge", cut=None):
    """As `demur rank` would write it of these texts."""
    metrics = None
    if cut is not None:
        known = [0.5, None, None]
        point = {"rating": cut, "criterion": "f1", "value": 1.0, "precision": known, "recall": known}
        lines = {"knots": [900.0, 1100.0], "values": [0.1, 0.9]}
        metrics = {"n": 4, "n_positive": 2, "auroc": known, "auprc": known, "cut": point, "isotonic": lines}
    content = {
        "model": "judge",
        "labels": ["weak", "strong"],
        "judge": judge,
        "inputs_sha256": "aa",
        "settings": {},
        "rounds": 10,
        "ended": "settled",
        "agreement": 0.98,
        "comparisons": 100,
        "no_verdict": 0,
        "failed": 0,
        "share_a": None,
        "prompt_tokens": 0,
        "completion_tokens": 0,
        "metrics": metrics,
        "rows": [{"input": text, "label": None, "rating": rating} for text, rating in ratings.items()],
    }
    path.write_text(json.dumps(content))
    return path


LADDER = {f"step {i}": 800.0 + 50 * i for i in range(9)}
"""800 to 1200."""


def tournament(tmp_path, engine, *, ratings=LADDER, rounds=4, anchors=64, cut=None):
    settings = TournamentConfig(
        ratings=ratings_file(tmp_path / "r.json", ratings, cut=cut), anchors=anchors, rounds=rounds
    )
    model = judge_of(configured(tmp_path))
    return Tournament(PairJudge(model, engine), Anchors.of(settings), rounds=rounds)


def always(side_of_new):
    """An engine with whom every new text wins, or loses."""
    return ComparingEngine({**dict.fromkeys(LADDER, 0.0), "new": side_of_new, "other": side_of_new}, sharpness=1000)


def test_anchors_are_spread_over_the_ranks(tmp_path):
    ratings = {f"text {i:03}": float(i) for i in range(100)}
    path = ratings_file(tmp_path / "r.json", {**ratings, "text 000": 0.0})
    chosen = Anchors.of(TournamentConfig(ratings=path, anchors=12, rounds=8))
    assert chosen.ratings.tolist() == [9.0 * i for i in range(12)]
    assert chosen.texts[:2] == ("text 000", "text 009")
    assert chosen.start == 1000
    everything = Anchors.of(TournamentConfig(ratings=path, anchors=500, rounds=8))
    assert len(everything) == 100
    assert Anchors.of(TournamentConfig(ratings=ratings_file(path, ratings, cut=42.0))).start == 42


def test_ratings_that_cannot_be_used(tmp_path):
    with pytest.raises(BadRatings, match="`demur rank` writes it"):
        read_ratings(tmp_path / "nowhere.json")
    (tmp_path / "bad.json").write_text('{"rows": []}')
    with pytest.raises(BadRatings, match="not what `demur rank` writes"):
        read_ratings(tmp_path / "bad.json")
    path = ratings_file(tmp_path / "r.json", LADDER)
    with pytest.raises(BadRatings, match="at least 10 anchors, and there are 9"):
        Anchors.of(TournamentConfig(ratings=path, rounds=9))
    anchors = Anchors.of(TournamentConfig(ratings=path, rounds=8))
    anchors.check_same(labels=("weak", "strong"), judge="judge", path=path)
    with pytest.raises(BadRatings, match="another model"):
        anchors.check_same(labels=("weak", "strong"), judge="other", path=path)
    with pytest.raises(BadRatings, match="not the labels"):
        anchors.check_same(labels=("strong", "weak"), judge="judge", path=path)


def test_matches_are_those_of_the_method(tmp_path):
    """Each round the unmet anchor nearest to the present rating, and Elo's update of the newcomer alone."""
    engine = always(1.0)
    rated = asyncio.run(tournament(tmp_path, engine).rate("new"))
    met = [b if a == "new" else a for a, b in engine.asked]
    assert len(set(met)) == 4
    rating, free = 1000.0, dict(LADDER)
    for anchor in met:
        assert anchor == min(free, key=lambda text: abs(free[text] - rating))
        rating = float(update_ratings([rating, free.pop(anchor)], [(0, 1, 1)])[0])
    assert rated.rating == pytest.approx(rating)
    assert rated.probability == pytest.approx(1 / (1 + 10 ** ((1000 - rating) / 400)))
    assert rated.usage.calls == 4
    assert (rated.usage.prompt_tokens, rated.usage.completion_tokens) == (80, 4)
    assert rated.why_unreadable is None


def test_a_newcomer_starts_at_the_cut(tmp_path):
    won, lost = (asyncio.run(tournament(tmp_path, always(s), cut=1110.0).rate("new")) for s in (1.0, -1.0))
    assert won.probability > 0.5 > lost.probability
    assert won.rating > 1110 > lost.rating


def test_the_same_text_meets_the_same_fate_and_never_itself(tmp_path):
    engine = ComparingEngine({**dict.fromkeys(LADDER, 0.0), "new": 0.3}, sharpness=1, lean=0.5)
    rates = tournament(tmp_path, engine, rounds=8)
    first, second = (asyncio.run(rates.rate("new")) for _ in range(2))
    assert (first.rating, first.said) == (second.rating, second.said)
    engine.asked.clear()
    asyncio.run(rates.rate("step 4"))
    assert len(engine.asked) == 8
    assert all(a != b for a, b in engine.asked)


def test_sides_are_drawn(tmp_path):
    strengths = {**dict.fromkeys(LADDER, 0.0), **{f"text {i}": 0.0 for i in range(100)}}
    engine = ComparingEngine(strengths)
    rates = tournament(tmp_path, engine)
    for i in range(100):
        asyncio.run(rates.rate(f"text {i}"))
    first = np.mean([a.startswith("text") for a, _ in engine.asked])
    assert 0.4 < first < 0.6


class Says(ComparingEngine):
    """Says these things, one after the other."""

    async def generate(self, messages, asking):
        return [Generation(text=next(self.strengths))]


@pytest.mark.parametrize(
    ("said", "readable"),
    [("AAAA", True), ("A??B", True), ("A???", False), ("????", False)],
)
def test_with_fewer_than_half_of_the_verdicts_nothing_was_said(tmp_path, said, readable):
    output = asyncio.run(tournament(tmp_path, Says(iter(said))).run(["new"]))
    assert output.usable().tolist() == [readable]
    assert np.isfinite(output.probabilities).all() == readable
    [why] = output.why_unusable()
    if readable:
        assert why is None
        assert output.probabilities.sum() == pytest.approx(1)
    else:
        assert "of 4 comparisons gave a verdict" in why
    assert output.replies[0].first.text == " ".join(said)


def test_a_verdict_that_cannot_be_read_moves_nothing(tmp_path):
    rated = asyncio.run(tournament(tmp_path, Says(iter("??AA"))).rate("new"))
    assert rated.said == (None, None, "A", "A")
    assert rated.rating != 1000
    assert asyncio.run(tournament(tmp_path, Says(iter("????"))).rate("new")).rating == 1000


def test_what_fails_fails_for_its_row_alone(tmp_path):
    class Half(ComparingEngine):
        async def generate(self, messages, asking):
            self.broken = float("other" in messages[-1]["content"])
            return await super().generate(messages, asking)

    engine = Half(always(1.0).strengths, sharpness=1000)
    output = asyncio.run(tournament(tmp_path, engine).run(["new", "other", "new"]))
    assert output.usable().tolist() == [True, False, True]
    assert "the endpoint is tired" in output.why_unusable()[1]
    assert output.probabilities[0].tolist() == output.probabilities[2].tolist()
    assert output.replies[0].usage.calls == 4
    assert output.replies[0].said == 1
    assert output.replies[1].usage == Usage()


def with_tournament(config, path, **settings):
    model = judge_of(config)
    host = model.host.model_copy(update={"tournament": TournamentConfig(ratings=path, **settings)})
    return model.model_copy(update={"host": host})


def test_ratings_are_part_of_what_the_model_is(tmp_path):
    config = configured(tmp_path)
    bare = judge_of(config)
    judge = judge_fingerprint(bare, weights_fingerprint(bare))
    path = ratings_file(tmp_path / "r.json", LADDER, judge=judge)

    def fingerprint(model):
        return identity_of(model).fingerprint

    rated = with_tournament(config, path)
    known = [fingerprint(bare), fingerprint(rated), fingerprint(with_tournament(config, path, rounds=5))]
    ratings_file(path, {**LADDER, "step 0": 801.0}, judge=judge)
    known.append(fingerprint(rated))
    ratings_file(path, LADDER, judge=judge, cut=1010.0)
    known.append(fingerprint(rated))
    assert len(set(known)) == 5
    ratings_file(path, LADDER, judge=judge)
    assert fingerprint(rated) == known[1]
    ratings_file(path, LADDER, judge="another")
    with pytest.raises(BadRatings, match="run `demur rank` again"):
        identity_of(rated)
    path.unlink()
    assert identity_if_here(rated) is None
    assert identity_if_here(bare) is not None


@dataclass(frozen=True)
class OfReply:
    needs: ClassVar = frozenset({"reply"})


def test_what_a_tournament_cannot_go_with_is_refused(tmp_path, monkeypatch):
    monkeypatch.setitem(SCORES, "of_reply", OfReply)
    with pytest.raises(ValidationError, match="nothing but probabilities, which of_reply"):
        configured_with(tmp_path, scores=["entropy", "of_reply"])
    with pytest.raises(ValidationError, match=r"only asked to compare; leave out prompt\.probabilities"):
        configured_with(tmp_path, prompt={"probabilities": "first_token"})
    with pytest.raises(ValidationError, match="which prediction_set"):
        configured_with(tmp_path, prediction_set={"kind": "sampled"})
    with pytest.raises(ValidationError, match="binary task, and this one is multiclass"):
        configured_with(tmp_path, task={"kind": "multiclass", "labels": ["a", "b", "c"]})


def configured_with(tmp_path, **changes):
    content = configured(tmp_path, tournament={"ratings": "r.json"}).model_dump(mode="json")
    content["models"]["judge"] |= changes
    return Config.model_validate(content)


def test_a_score_costs_nothing_beyond_the_comparisons(tmp_path):
    cost = costs(configured(tmp_path).model("judge"))["entropy"]
    assert (cost.calls, cost.tokens) == (0, 0)
    assert "the 8 comparisons" in cost.words


def test_the_path_is_that_of_the_working_directory(tmp_path):
    config = with_absolute_paths(configured(tmp_path, tournament={"ratings": "r.json"}), tmp_path)
    assert config.model("judge").host.tournament.ratings == tmp_path / "r.json"


@pytest.mark.slow
def test_verdicts_alone_become_probabilities(monkeypatch, tmp_path):
    """From the file to a probability: rank some, rate others, fit on one half of these, and look at the other half."""
    rng = np.random.default_rng(2)
    known, new = drawn(120, seed=1), {f"new {text}": s for text, s in drawn(400, seed=2).items()}
    engine = ComparingEngine({**known, **new}, sharpness=2)
    serve_with(monkeypatch, engine)
    data = write_rows(tmp_path / "rows.jsonl", labelled(known))
    config = configured(tmp_path)
    ranked = rank_file(
        config, "judge", data, folder=tmp_path, plan=TournamentPlan(), budget=Budget(rounds=15), told=quiet
    )

    rates = Tournament.of(with_tournament(config, ranked.path, anchors=64, rounds=8), engine)
    assert rates is not None
    output = asyncio.run(rates.run(list(new)))
    p = output.probabilities[:, 1]
    positive = rng.random(400) < 1 / (1 + np.exp(-3 * np.array(list(new.values()))))
    assert output.usable().all()
    assert roc_auc(positive, p) > 0.75
    assert ((p > 0.5) == positive).mean() > 0.7
    fitted = rng.permutation(400) < 200
    line = fit_isotonic(p[fitted], positive[fitted].astype(float))
    told = line.confidence(p[~fitted])
    assert ece(told, positive[~fitted].astype(float), n_bins=10) < 0.1
    assert ece(told, positive[~fitted].astype(float)) < ece(p[~fitted], positive[~fitted].astype(float))


@pytest.mark.slow
def test_a_model_without_log_probabilities_is_fitted_and_asked(monkeypatch, tmp_path):
    """The whole way: rank, fit through the anchors, and what the language model then says of an input."""
    known, new = drawn(80, seed=1), {f"new {text}": s for text, s in drawn(240, seed=2).items()}
    engine = serve_with(monkeypatch, ComparingEngine({**known, **new}, sharpness=3))
    config = configured(tmp_path, tournament={"ratings": str(tmp_path / "ratings.json")}, gives_logprobs=False)
    data = write_rows(tmp_path / "known.jsonl", labelled(known))
    rank_file(config, "judge", data, folder=tmp_path, plan=TournamentPlan(), budget=Budget(rounds=12), told=quiet)
    rows = write_rows(tmp_path / "new.jsonl", labelled(new))
    fitted = fit_model(config, "judge", rows, clock=lambda: datetime.now(UTC), progress=quiet)
    artifact = ArtifactStore(config.artifacts).load("judge", fitted.name)
    artifact.check_fits(identity_of(config.model("judge")), "judge")
    report = artifact.manifest["report"]
    assert report["accuracy"]["value"] > 0.8
    assert report["ece"]["value"] < 0.1

    model = LanguageModel(config.model("judge"), engine)
    output = asyncio.run(model.run(ModelRequest(inputs=list(new)[:20], needs=artifact.selector.needs)))
    judged = artifact.selector.decide(output.only(artifact.selector.needs), [None] * 20)
    assert np.isfinite(judged.confidence).all()
    assert all(replies.usage.calls == 8 for replies in output.replies)


def test_no_tournament_is_configured(tmp_path):
    assert Tournament.of(judge_of(configured(tmp_path)), ComparingEngine({})) is None

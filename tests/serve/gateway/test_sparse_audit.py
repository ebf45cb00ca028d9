"""Figures of the k most probable labels where there are very many: in audits, comparisons and replays."""

import itertools
import tracemalloc
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from demur.audit.ledger.from_database import read_ledger
from demur.audit.ledger.ledger import Mentions, TopColumns
from demur.audit.report.audit import AuditSettings, audit
from demur.audit.report.in_parts import audit_in_parts, one_by_one
from demur.audit.report.plan import Settings
from demur.serve.config.file import Config
from demur.serve.fitting.compare import compare_on_traffic
from demur.serve.fitting.fit import fit_model
from demur.serve.fitting.replay import replay_traffic
from demur.traffic.outcomes import LATEST
from tests.serve.gateway.test_sparse import client_of, clock, fitted, rows, section, write

N_LABELS = 670_000
K = 4


@pytest.fixture(scope="module")
def wide_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("labels") / "labels.txt"
    path.write_text("\n".join(f"label {at}" for at in range(N_LABELS)))
    return path


@pytest.fixture
def served(tmp_path, wide_file, database):
    """A configuration, and rows that were decided, all but every fifth with its outcome."""
    model = section(wide_file, label_confidence={"isotonic": {"k": K}})
    config = Config.model_validate({"data": str(tmp_path), "models": {"tags": model}})
    fitted(config, write(tmp_path / "rows.parquet", rows(400)))
    some = [{"candidates": {}, "label": ["label 1"]}, {"candidates": {"label 5": 0.9}, "label": ["label 5"]}]
    some += [{"candidates": {"label 5": 0.9}, "label": []}, *rows(250, seed=5)]
    with client_of(config, database) as client:
        items = [{"model": "tags", "output": {"candidates": row["candidates"]}} for row in some]
        told = client.post("/v1/predict/batch", json={"items": items}).json()["results"]
        answers = [one["prediction"] for one in told]
        known = [at for at in range(len(some)) if at % 5]
        outcomes = [{"id": answers[at]["id"], "label": some[at]["label"]} for at in known]
        done = client.post("/v1/outcomes/batch", json={"items": outcomes}).json()["results"]
        assert {one["status"] for one in done} == {201}
    return config, [(some[at], answers[at]) for at in known]


def counted(labelled, k):
    """What the figures of k are, counted row by row."""
    precision, recall, risk, pairs = [], [], [], []
    for row, answer in labelled:
        first = list(answer["label_confidence"].items())[:k]  # the most probable label comes first
        hits = [label in row["label"] for label, _ in first]
        precision.append(sum(hits) / k)
        if row["label"]:
            recall.append(sum(hits) / len(set(row["label"])))
        if answer["action"] == "answer":
            risk.append(1 - sum(hits) / k)
        pairs += [(confidence, hit) for (_, confidence), hit in zip(first, hits, strict=True)]
    return {
        "precision": np.mean(precision),
        "recall": np.mean(recall),
        "label_risk": np.mean(risk),
        "brier": np.mean([(confidence - hit) ** 2 for confidence, hit in pairs]),
    }


def ledger_of(database):
    return read_ledger(
        database, "tags", precedence=LATEST, since=None, until=None, as_of=datetime.now(UTC) + timedelta(days=1)
    )


ASKED = AuditSettings(settings=Settings(every_outcome_known=True))


def test_an_audit_tells_the_figures_of_k(served, database):
    _, labelled = served
    document = audit(ledger_of(database), ASKED).document
    told = {one["name"]: one for one in document["estimates"]}
    for k in (1, 3, K):  # and the k of the configuration
        for name, value in counted(labelled, k).items():
            assert told[f"{name}_at_{k}"]["value"] == pytest.approx(value), (name, k)
        for name in ("precision", "recall", "ece"):
            one = told[f"{name}_at_{k}"]
            assert one["lower"] <= one["value"] <= one["upper"]
    assert f"ece_at_{K}_before" in told
    assert "precision_at_5" not in told
    assert told["selective_risk"]["value"] is not None
    page = audit(ledger_of(database), ASKED).as_html()
    for words in (f"precision@{K}", f"recall@{K}", f"labels of answers that do not hold@{K}", f"ECE@{K}"):
        assert words in page


def part_of(ledger, rows):
    """Some rows of a ledger, one after the other, as a part of its traffic."""
    texts = {name: getattr(ledger, name)[rows] for name in ("actions", "artifacts", "groups", "clusters", "sources")}
    names = (
        "ids",
        "times",
        "quality",
        "confidence",
        "top_probability",
        "set_size",
        "covered",
        "right_labels",
        "label_probability",
    )
    columns = {name: getattr(ledger, name)[rows] for name in (*names, "drawn", "reviewed")}
    top = TopColumns(
        **{name: getattr(ledger.top, name)[rows] for name in ("probabilities", "calibrated", "hits", "right")}
    )
    inside = (ledger.mentions.rows >= rows.start) & (ledger.mentions.rows < rows.stop)
    mentions = Mentions(
        rows=ledger.mentions.rows[inside] - rows.start,
        labels=ledger.mentions.labels[inside],
        predicted=ledger.mentions.predicted[inside],
        right=ledger.mentions.right[inside],
        probability=ledger.mentions.probability[inside],
    )
    scores = {name: column[rows] for name, column in ledger.scores.items()}
    return replace(ledger, **texts, **columns, top=top, mentions=mentions, scores=scores)


def test_an_audit_of_parts_says_the_same(served, database):
    """Also where the rows of one part name fewer labels than those of the others."""
    whole = ledger_of(database)
    ends = (0, 2, len(whole) // 2, len(whole))
    parts = [part_of(whole, slice(a, b)) for a, b in itertools.pairwise(ends)]
    top = parts[0].top
    narrow = TopColumns(
        probabilities=top.probabilities[:, :1], calibrated=top.calibrated[:, :1], hits=top.hits[:, :1], right=top.right
    )
    assert np.isnan(top.probabilities[:, 1:]).all()  # as it is read where no row of a part names more
    parts[0] = replace(parts[0], top=narrow)
    in_parts = audit_in_parts(whole.extent, one_by_one(len(parts), parts.__getitem__), lambda _: ASKED).document
    at_once = {one["name"]: one["value"] for one in audit(whole, ASKED).document["estimates"]}
    found = {one["name"]: one["value"] for one in in_parts["estimates"]}
    assert {name for name in found if "_at_" in name} == {name for name in at_once if "_at_" in name}
    assert {name: value for name, value in found.items() if "_at_" in name} == pytest.approx(
        {name: value for name, value in at_once.items() if "_at_" in name}
    )


def test_two_artifacts_are_compared_on_traffic_and_one_is_replayed(served, database, tmp_path, wide_file):
    config, labelled = served
    policy = {"kind": "rejection_rate", "rate": 0.6}
    stricter = section(wide_file, label_confidence={"isotonic": {"k": K}}, policy=policy)
    other = Config.model_validate({"data": str(tmp_path), "models": {"tags": stricter}})
    second = fit_model(other, "tags", tmp_path / "rows.parquet", clock=clock, progress=lambda *_: None)
    first = labelled[0][1]["artifact"]
    told = {"since": None, "until": None, "progress": lambda *_: None}
    found = compare_on_traffic(config, "tags", first, second.name, database, **told)
    replayed = replay_traffic(config, "tags", second.name, database, **told)
    for k in (1, 3, K):
        a, b = (next(one for one in side if one.k == k) for side in found.at_k)
        then, now = (next(one for one in side if one.k == k) for side in replayed.at_k)
        expected = counted(labelled, k)
        sound = [one for one in labelled if one[1]["confidence"] is not None]
        assert a.precision == pytest.approx(counted(sound, k)["precision"])
        assert (then.precision, then.recall) == pytest.approx((expected["precision"], expected["recall"]))
        assert then.label_risk == pytest.approx(expected["label_risk"])
        assert now.label_risk == pytest.approx(b.label_risk)
        assert b.label_risk < a.label_risk  # more is held
    assert found.as_json()["at_k"][0][0]["k"] == 1
    assert replayed.as_json()["at_k"][1][-1]["k"] == K


def test_nothing_is_as_wide_as_the_labels(served, database, tmp_path):
    """One row of 670,000 booleans has 0.67 MB, and a page of 64 rows 43 MB: less than that is used for all of them."""
    config, labelled = served
    artifact = labelled[0][1]["artifact"]
    told = {"since": None, "until": None, "progress": lambda *_: None}
    _ = config.models["tags"].task.table.index  # read once in a process

    def most(work):
        work()  # what is loaded once
        tracemalloc.start()
        work()
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return peak / 1e6

    assert most(lambda: ledger_of(database)) < 10
    ledger = ledger_of(database)
    assert most(lambda: audit(ledger, ASKED)) < 120  # [253, 670,000] booleans have 170 MB
    assert most(lambda: replay_traffic(config, "tags", artifact, database, **told)) < 20
    assert most(lambda: compare_on_traffic(config, "tags", artifact, artifact, database, **told)) < 20
    path = tmp_path / "rows.parquet"
    assert most(lambda: fit_model(config, "tags", path, clock=clock, progress=lambda *_: None)) < 60

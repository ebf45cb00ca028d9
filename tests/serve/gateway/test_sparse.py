"""Predictions that name some candidates among very many labels: from a file to a fit, requests and records."""

from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
from pydantic import ValidationError
from starlette.testclient import TestClient

from demur.calibration_store.store import ArtifactStore
from demur.serve.config.file import Config
from demur.serve.config.label_table import read_labels
from demur.serve.fitting.compare import compare_on_file
from demur.serve.fitting.fit import fit_model
from demur.serve.web.native.app import gateway_app
from tests.serve.conftest import LocalHost, make_handler
from tests.serve.hosting import RunningHost

N_LABELS, N_CANDIDATES = 30_000, 20


def clock():
    return datetime(2026, 11, 24, tzinfo=UTC)


@pytest.fixture(scope="module")
def label_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("labels") / "labels.txt"
    path.write_text("\n".join(f"label {at}" for at in range(N_LABELS)))
    return path


def section(label_file, kind="multilabel", **more):
    exclusive = kind == "multiclass"
    return {
        "task": {"kind": kind, "labels": str(label_file), "sparse": True},
        "host": {"kind": "given", "gives": ["candidates"], "candidates": N_CANDIDATES},
        "scores": ["softmax_response" if exclusive else "binary_entropy"],
        "confidence": {"score": "softmax_response" if exclusive else "binary_entropy"},
        "policy": {"kind": "rejection_rate", "rate": 0.2},
        **({} if exclusive else {"label_confidence": {"isotonic": {"k": 3}}}),
        **more,
    }


def config_of(folder, label_file, **more):
    return Config.model_validate({"data": str(folder), "models": {"tags": section(label_file, **more)}})


def rows(n, *, exclusive=False, seed=0):
    """Rows whose candidates hold about as often as their probabilities say; some labels that hold are no candidates."""
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(n):
        labels = rng.choice(N_LABELS, size=int(rng.integers(3, N_CANDIDATES + 1)), replace=False)
        p = rng.beta(0.5, 2, size=len(labels)) if rng.random() < 0.5 else rng.choice([0.01, 0.98], size=len(labels))
        if exclusive:
            p = (0.9 * p / p.sum()).round(6)
            drawn = rng.choice(len(labels) + 1, p=[*p, 1 - p.sum()])
            label = f"label {labels[drawn]}" if drawn < len(labels) else f"label {rng.integers(N_LABELS)}"
        else:
            label = [f"label {at}" for at, held in zip(labels, rng.random(len(labels)) < p, strict=True) if held]
            label += [f"label {rng.integers(N_LABELS)}"] if rng.random() < 0.2 else []
        candidates = {f"label {at}": float(one) for at, one in zip(labels, p, strict=True)}
        found.append({"candidates": candidates, "label": label})
    return found


def write(path, some):
    pairs = [{**row, "candidates": [list(pair) for pair in row["candidates"].items()]} for row in some]
    if path.suffix == ".jsonl":
        import json

        path.write_text("\n".join(json.dumps(row) for row in pairs))
        return path
    kind = pa.map_(pa.string(), pa.float64())
    table = pa.table(
        {
            "candidates": pa.array([list(row["candidates"].items()) for row in some], type=kind),
            "label": pa.array([row["label"] for row in some]),
        }
    )
    parquet.write_table(table, path)
    return path


def fitted(config, path):
    done = fit_model(config, "tags", path, clock=clock, progress=lambda *_: None)
    ArtifactStore(config.artifacts).promote("tags", done.name, by="tests", why="a test", clock=clock)
    return done


def client_of(config, database):
    host = RunningHost("tags", config.models["tags"], ArtifactStore(config.artifacts))
    handler = make_handler(config, {"tags": LocalHost(host)}, database)
    return TestClient(gateway_app(handler, max_body_bytes=config.limits.body_bytes), raise_server_exceptions=False)


def ask(client, candidates):
    return client.post("/v1/predict", json={"model": "tags", "output": {"candidates": candidates}})


@pytest.mark.parametrize("name", ["rows.parquet", "rows.jsonl"])
def test_several_labels_of_very_many(tmp_path, label_file, database, name):
    config = config_of(tmp_path, label_file)
    done = fitted(config, write(tmp_path / name, rows(500)))
    assert done.fit.n_fitted + done.fit.n_reported == 500
    manifest = ArtifactStore(config.artifacts).in_force("tags").manifest
    assert manifest["model"]["labels"] == []
    assert len(manifest["data"]["label_counts"]) <= 1000
    with client_of(config, database) as client:
        done = ask(client, {"label 29999": 0.97, "label 7": 0.9, "label 3": 0.01}).json()
        assert done["prediction"] == ["label 7", "label 29999"]
        assert set(done["label_confidence"]) == {"label 7", "label 29999", "label 3"}
        few = ask(client, {"label 7": 0.97}).json()
        assert list(few["label_confidence"]) == ["label 7"]  # no made-up labels where there are fewer than k
        assert ask(client, {}).json()["prediction"] == []
        told = client.post(f"/v1/predictions/{done['id']}/outcome", json={"label": ["label 7", "label 12"]})
        assert told.json()["label"] == ["label 7", "label 12"]
        refused = client.post(f"/v1/predictions/{done['id']}/outcome", json={"label": ["label 30000"]})
        assert refused.status_code == 422


def test_one_label_of_very_many_shares_the_rest_with_all_others(tmp_path, label_file, database):
    config = config_of(tmp_path, label_file, kind="multiclass", prediction_set={"kind": "split", "alpha": 0.1})
    fitted(config, write(tmp_path / "rows.parquet", rows(600, exclusive=True)))
    with client_of(config, database) as client:
        sure = ask(client, {"label 7": 0.9, "label 3": 0.05}).json()
        assert sure["prediction"] == "label 7"
        unsure = ask(client, {"label 7": 0.3, "label 3": 0.2}).json()
        assert unsure["action"] == "review"
        assert unsure["prediction"] is None
        assert "no candidate is as probable as all the labels together" in unsure["reason"]
        close = ask(client, {"label 7": 0.5, "label 3": 0.1}).json()
        assert "(others)" in close["prediction_set"]


def test_a_row_is_decided_alike_in_any_batch(tmp_path, label_file, database):
    config = config_of(tmp_path, label_file)
    fitted(config, write(tmp_path / "rows.parquet", rows(300)))
    with client_of(config, database) as client:
        some = [row["candidates"] for row in rows(40, seed=9)]
        items = [{"model": "tags", "output": {"candidates": one}} for one in some]
        together = client.post("/v1/predict/batch", json={"items": items}).json()["results"]
        for one, result in zip(some[:10], together, strict=False):
            alone = ask(client, one).json()
            assert {k: result["prediction"][k] for k in ("prediction", "confidence", "scores", "action")} == {
                k: alone[k] for k in ("prediction", "confidence", "scores", "action")
            }


@pytest.mark.slow
def test_two_artifacts_are_compared(tmp_path, label_file):
    config = config_of(tmp_path, label_file)
    path = write(tmp_path / "rows.parquet", rows(300))
    first = fitted(config, path)
    other = config_of(tmp_path, label_file, policy={"kind": "threshold", "limit": 0.5})
    second = fit_model(other, "tags", path, clock=clock, progress=lambda *_: None)
    found = compare_on_file(config, "tags", first.name, second.name, path, progress=lambda *_: None)
    assert found.numbers.n_labelled == 300


@pytest.mark.parametrize(
    ("candidates", "why"),
    [
        ({"label 30000": 0.5}, "output.candidates.'label 30000': there is no such label among 30,000"),
        ({"label 1": 1.5}, "a probability is not between 0 and 1"),
        ({f"label {at}": 0.1 for at in range(21)}, "there are 21; at most 20 are taken (host.candidates)"),
        ([["label 1", 0.1], ["label 1", 0.2]], "a label is there twice"),
        ([0.1, 0.2], "an object of labels and probabilities is wanted here"),
        ({"label 1": "a"}, "a list of numbers is wanted here"),
        ({"label 1": None}, "a list of numbers is wanted here"),
        ({"label 1": True}, "a list of numbers is wanted here"),
        ({"label 1": -0.1}, "a probability is not between 0 and 1"),
        ([["label 1", "NaN"]], "a list of numbers is wanted here"),
        ([[["label 1"], 0.1]], "pairs of a label, as a text, and its probability are wanted here"),
        ([[1, 0.1]], "pairs of a label, as a text, and its probability are wanted here"),
        ([[None, 0.1]], "pairs of a label, as a text, and its probability are wanted here"),
        ({"label 1\u200b": 0.1}, "there is no such label"),
        ({"label 1,label 2": 0.1}, "there is no such label"),
        (None, "an object of labels and probabilities is wanted here"),
        ("label 1", "an object of labels and probabilities is wanted here"),
    ],
)
def test_what_are_no_candidates_is_refused(tmp_path, label_file, database, candidates, why):
    config = config_of(tmp_path, label_file)
    with client_of(config, database) as client:
        refused = ask(client, candidates)
        assert refused.status_code == 422
        assert why in refused.json()["error"]["message"]


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"task": {"kind": "multilabel", "labels": ["a", "b"], "sparse": True}}, "name the file that holds them"),
        ({"host": {"kind": "given", "gives": ["probabilities"]}}, "`candidates` go with a sparse task"),
        ({"label_confidence": {"isotonic": {"mode": "per_label"}}}, "maps for each label need a column for each"),
        ({"label_confidence": {"platt": {"k": 50}}}, "k is 50, and a row has at most 20 candidates"),
        ({"prediction_set": {"kind": "class_conditional"}}, "needs a column for each label"),
        ({"escalate_to": "other"}, "a sparse task has one model"),
    ],
)
def test_what_a_sparse_task_cannot_have(label_file, more, why):
    with pytest.raises(ValidationError) as refused:
        Config.model_validate({"models": {"tags": section(label_file) | more}})
    assert why in str(refused.value)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (None, "there is no file of labels"),
        ("a\n", "has 1 lines"),
        ("a\n\nb\n", "line 2: a label, and its title behind a tab, have 1 to 200 characters"),
        ("a\nb\na\n", "line 3: 'a' is there twice"),
        ("a\nb\tsome\na\tother", "line 3: 'a' is there twice"),
        ("caf\u00e9\nb\ncafe\u0301\n", "looks the same as line 1; keep one of them"),
        (b"a\n\xff\n", "is not text in UTF-8: invalid start byte at byte 2; save it as UTF-8"),
        ("a\nb\n".encode("utf-16"), "is not text in UTF-8"),
        ("a\nb\x7f\n", "line 2: a label, and its title"),
        ("a\nb\u2028c\n", "line 2: a label, and its title"),
        ("a\nb\tc\td\n", "line 2: a label, and its title"),
        ("a\n" + 201 * "b", "line 2: a label, and its title"),
        ("a\nb\t" + 201 * "c", "line 2: a label, and its title"),
    ],
)
def test_a_file_of_labels_is_checked(tmp_path, content, why):
    path = tmp_path / "labels.txt"
    if content is not None:
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(ValidationError) as refused:
        Config.model_validate({"models": {"tags": section(path)}})
    assert why in str(refused.value)


def test_titles_stand_behind_a_tab_and_change_nothing_else(tmp_path):
    plain, titled = tmp_path / "plain.txt", tmp_path / "titled.txt"
    names = ['say "hi", twice', "\u202eesrever", " spaced ", "b"]
    plain.write_bytes("\r\n".join(names).encode())
    titled.write_text("\n".join(f"{name}\tTitle of {name}" for name in names[:3]) + "\nb\t\n", encoding="utf-8-sig")
    one, other = read_labels(plain), read_labels(titled)
    assert one.names == other.names == tuple(names)
    assert one.sha256 == other.sha256  # an artifact stays good when titles change
    assert one.titles == ()
    assert other.titles_of(["b", " spaced ", "nothing"]) == {" spaced ": "Title of  spaced"}


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"share_of": "rows"}, "of them are not among the candidates; bring more candidates"),
        ({"max_labels": 12}, "1,188 are needed to promise that at most 1% of them are missed"),
        ({}, "risk_control has no max_labels: say how many labels an input can have at most"),
    ],
)
def test_labels_below_a_limit_that_misses_few(tmp_path, label_file, settings, why):
    config = config_of(
        tmp_path, label_file, task={"kind": "multilabel", "labels": str(label_file), "sparse": True,
                                    "thresholds": {"risk_control": {"alpha": 0.01, **settings}}},
    )  # fmt: skip
    with pytest.raises(ValueError, match=why):
        fit_model(config, "tags", write(tmp_path / "rows.parquet", rows(500)), clock=clock, progress=lambda *_: None)


def test_platt_calibrates_the_first_labels(tmp_path, label_file, database):
    config = config_of(tmp_path, label_file, label_confidence={"platt": {"k": 3, "mode": "separate"}})
    fitted(config, write(tmp_path / "rows.parquet", rows(500)))
    with client_of(config, database) as client:
        confidence = ask(client, {"label 7": 0.9, "label 29999": 0.6, "label 3": 0.1}).json()["label_confidence"]
        assert 0.7 < confidence["label 7"] < 1
        assert confidence["label 3"] < 0.3

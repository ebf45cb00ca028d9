import csv
import gzip
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.real import chest_xrays, emotions, evidence, medical_questions, readability, six_options
from benchmarks.real.confidence import BEFORE, CALIBRATORS, measure
from benchmarks.real.document import NoSuchTable, with_tables
from benchmarks.real.label_confidence import measure as measure_labels
from benchmarks.real.measurement import measure as measure_all
from benchmarks.real.noise_floor import noise_floor
from benchmarks.real.predictions import Predictions, many_labels, one_label
from benchmarks.real.promise_tables import promise_tables
from benchmarks.real.ranking import measure as measure_scores
from benchmarks.real.splits import splits
from benchmarks.real.tables import tables
from demur.audit.metrics.calibration import ece
from demur.uncertainty.checks import probability_rows

pytestmark = [pytest.mark.slow, pytest.mark.long]  # measures beside the service, and nothing that serves depends on it

ROOT = Path(__file__).parents[2]
DATA = ROOT.parent / "shared" / "data"


def write_csv(path: Path, header: Sequence[str], lines: Sequence[Sequence[object]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with gzip.open(path, "wt", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(header)
        writer.writerows(lines)


def write_readability(data: Path, n: int = 30) -> None:
    header = ("fold", "lang", "text", "cefr", "label", "pred", "p_complex", "p_simple")
    rng = np.random.default_rng(0)
    p = rng.uniform(0.05, 0.95, n).round(6)
    lines = [
        (i % 5, "en", f"text {i // 2 if i < 2 else i}", 3.0, "complex" if rng.random() < q else "simple", "", q, 1 - q)
        for i, q in enumerate(p)
    ]
    write_csv(data / "readability/mbert_fold_predictions.csv.gz", header, lines)


def write_medical_questions(data: Path, n: int = 20) -> None:
    rng = np.random.default_rng(1)
    p = rng.dirichlet(np.ones(4), n)
    stored = [(f"q{i}", "mistral", "ABCD"[i % 4], "", *(row * 1.002)) for i, row in enumerate(p)]
    logs = [(f"q{i}", "qwen", "ABCD"[i % 4], "", *(np.log(row) - 0.2), 1.0, 2) for i, row in enumerate(p)]
    logs[3] = (*logs[3][:5], "", *logs[3][6:])  # an option outside of the stored top tokens
    options = "ABCD"
    header = ("qid", "model", "answer", "predicted")
    write_csv(data / "medical_mcq/mistral_medqa_probs.csv.gz", (*header, *(f"p_{o}" for o in options)), stored)
    columns = (*header, *(f"lp_{o}" for o in options), "latency_s", "tokens")
    write_csv(data / "medical_mcq/medqa_option_logprobs.csv.gz", columns, logs)


def test_readability_has_the_folds_together_and_alone(tmp_path):
    write_readability(tmp_path)
    whole, *alone = readability.read(tmp_path / "readability")
    assert len(whole) == 30
    assert [len(each) for each in alone] == [6] * 5
    assert [each.folds for each in alone] == [None] * 5
    assert whole.groups[0] == whole.groups[1]  # one text, in folds 0 and 1
    probability_rows("p", whole.rows.output.probabilities)
    assert whole.rows.truth.sum(axis=1).tolist() == [1] * 30


def test_a_blank_option_leaves_the_row_out_and_sums_are_renormalised(tmp_path):
    write_medical_questions(tmp_path)
    mistral, qwen = medical_questions.read(tmp_path / "medical_mcq")
    assert (mistral.model, len(mistral), mistral.left_out) == ("mistral", 20, 0)
    assert (qwen.model, len(qwen), qwen.left_out) == ("qwen", 19, 1)
    kept = np.delete(np.arange(20), 3)
    np.testing.assert_allclose(qwen.rows.output.probabilities, mistral.rows.output.probabilities[kept], atol=1e-12)
    np.testing.assert_array_equal(qwen.rows.classes, kept % 4)


def test_six_options_keeps_repeated_questions_together(tmp_path):
    p = np.random.default_rng(2).dirichlet(np.ones(6), 10).astype(np.float32)
    p[7] = p[2]
    np.savez(tmp_path / "mcq_probs.npz", **{"qa__labels": np.arange(10, dtype=np.int8) % 4, "qa__phi-2": p})
    (found,) = six_options.read(tmp_path)
    assert found.model == "phi-2, MMLU"
    assert found.groups[7] == found.groups[2]
    assert len(set(found.groups.tolist())) == 9
    probability_rows("p", found.rows.output.probabilities)
    answered = found.answered()
    assert len(answered) == int((p.argmax(axis=1) < 4).sum()) < len(found)


def test_emotions_leaves_out_what_the_prompts_show(tmp_path):
    rng = np.random.default_rng(3)
    names = {f"{model}_{prompt}" for model, prompts in emotions.ENSEMBLES.items() for prompt in prompts}
    logits = {name: rng.normal(20, 2, (8, 6)).astype(np.float32) for name in names | set(emotions.SETTINGS)}
    ids, labels = np.array([0, 1, 2, 3, 10, 11, 12, 13]), np.arange(8) % 4
    np.savez(tmp_path / "logits.npz", ids=ids, labels=labels, **logits)
    found = {each.model: each for each in emotions.read(tmp_path)}
    assert {(len(each), each.left_out) for each in found.values()} == {(6, 2)}
    ensemble = found["Qwen-14B, mean of 4 prompts"].rows.output
    assert ensemble.mc_probabilities is not None
    assert ensemble.mc_probabilities.shape == (6, 4, 6)
    np.testing.assert_allclose(ensemble.mc_probabilities[:, 0], found["Qwen-14B"].rows.output.probabilities)
    np.testing.assert_allclose(ensemble.probabilities, ensemble.mc_probabilities.mean(axis=1))


def test_chest_xrays_are_grouped_by_patient(tmp_path):
    p = np.random.default_rng(4).uniform(0.01, 0.9, (6, 14)).astype(np.float32)
    truth = (p > 0.5).astype(np.uint8)
    np.savez(tmp_path / "chexnet.npz", probs=p, labels=truth, patient=np.array([7, 7, 9, 9, 9, 30]))
    (found,) = chest_xrays.read(tmp_path)
    assert found.groups.tolist() == [0, 0, 1, 1, 1, 2]
    assert not found.rows.exclusive
    np.testing.assert_array_equal(found.rows.truth, p > 0.5)


def predictions(groups: Sequence[int], folds: Sequence[int] | None = None) -> Predictions:
    n = len(groups)
    return Predictions(
        model="toy",
        rows=one_label(np.full((n, 2), 0.5), np.zeros(n, dtype=np.intp)),
        groups=np.array(groups),
        folds=None if folds is None else np.array(folds),
    )


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 12), st.integers(0, 3)), min_size=2, max_size=60), st.booleans())
def test_no_group_is_parted(rows, folded):
    groups, folds = [group for group, _ in rows], [fold for _, fold in rows]
    parts = splits(predictions(groups, folds if folded else None), times=4)
    for part in parts:
        assert not {groups[i] for i in part.fit} & {groups[i] for i in part.test}
        assert len({*part.fit, *part.test}) == len(part.fit) + len(part.test)
        if not folded:
            assert len(part.fit) + len(part.test) == len(rows)
    if folded:
        assert sorted(np.concatenate([part.test for part in parts])) == list(range(len(rows)))


def test_splits_are_the_same_each_time():
    twice = [splits(predictions(range(20)), times=3) for _ in range(2)]
    for first, second in zip(*twice, strict=True):
        np.testing.assert_array_equal(first.fit, second.fit)
    assert not np.array_equal(twice[0][0].fit, twice[0][1].fit)


@pytest.mark.parametrize(
    ("confidence", "low", "high"),
    [
        (np.repeat([0.0, 1.0], 50), 0, 0),  # what is certain leaves nothing to chance
        (np.full(100, 0.5), 0.03, 0.05),  # sqrt(2 / pi) / (2 sqrt(n)) = 0.040
        (np.full(10_000, 0.5), 0.003, 0.005),
    ],
)
def test_noise_floor(confidence, low, high):
    assert low <= noise_floor(ece, confidence, draws=200, rng=np.random.default_rng(0)) <= high


def overconfident(n: int = 3000) -> Predictions:
    """Says p, and is right as often as half of that and a bit."""
    rng = np.random.default_rng(5)
    p = rng.uniform(0.5, 1.0, n)
    hit = rng.random(n) < 0.2 + 0.4 * p
    rows = one_label(np.stack([p, 1 - p], axis=1).clip(1e-9), np.where(hit, 0, 1).astype(np.intp))
    return Predictions(model="overconfident", rows=rows, groups=np.arange(n))


def test_calibration_brings_the_error_down_to_the_floor():
    found = measure(overconfident())
    assert set(found) == set(CALIBRATORS)
    assert found[BEFORE]["ECE"].mean == pytest.approx(0.75 - (0.2 + 0.4 * 0.75), abs=0.03)
    assert found["isotonic"]["ECE"].mean < 2 * found["isotonic"]["floor"].mean
    for metric in ("PRR", "AUROC"):  # beta is strictly increasing
        assert found["beta"][metric].mean == pytest.approx(found[BEFORE][metric].mean)
    assert len({values["accuracy"].mean for values in found.values()}) == 1


def test_a_joint_map_with_tie_break_leaves_precision_alone():
    rng = np.random.default_rng(6)
    p = rng.beta(1, 3, (400, 14))
    rows = many_labels(p, rng.random((400, 14)) < p**2)
    found = measure_labels(Predictions(model="labels", rows=rows, groups=np.arange(400)))
    for k in (1, 3, 5):
        assert found["isotonic, joint"][f"P@{k}"] == found[BEFORE][f"P@{k}"]
        assert found["isotonic, joint"][f"ECE@{k}"].mean < found[BEFORE][f"ECE@{k}"].mean
    assert found["isotonic step, joint, no tie-break"]["P@5"] != found[BEFORE]["P@5"]


def test_scores_of_one_model_are_compared_on_the_same_rows():
    rng = np.random.default_rng(7)
    passes = rng.dirichlet(np.ones(6), (300, 3))
    rows = one_label(passes.mean(axis=1), rng.integers(0, 4, 300), mc_probabilities=passes)
    ensemble = Predictions(model="ensemble", rows=rows, groups=np.arange(300), refusals=(4, 5))
    found = measure_scores(ensemble)
    assert {"SMP", "ENT-MC", "PV", "BALD", "refusal mass"} <= set(found)
    for values in found.values():
        assert np.isfinite([each.mean for each in values.values()]).all()
    measured = measure_all("toy", ensemble)
    assert measured.scores.keys() == measured.scores_with_refusals.keys() == found.keys()


def test_tables_replace_only_what_is_between_their_markers():
    page = "a\n<!-- table: x -->\nold\n<!-- end -->\nb\n"
    new = with_tables(page, {"x": "| new |"})
    assert new == "a\n<!-- table: x -->\n\n| new |\n\n<!-- end -->\nb\n"
    assert with_tables(new, {"x": "| new |"}) == new
    with pytest.raises(NoSuchTable, match="shows x; made are y"):
        with_tables(page, {"y": ""})


def test_the_document_shows_every_table():
    names = {**tables([], []), **promise_tables([]), "isotonic by size": ""}
    with_tables((ROOT / "docs/evidence/models.md").read_text(), names)


@pytest.mark.long
def test_without_data_it_says_so_and_stops(tmp_path):
    script = ROOT / "benchmarks/real/evidence.py"
    command = [sys.executable, script, "--data", tmp_path / "none", "--write", tmp_path / "page.md"]
    ended = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.startswith("There are no stored model outputs in")
    assert not (tmp_path / "page.md").exists()


def test_with_some_data_it_measures_that_and_writes_no_page(tmp_path, capsys):
    write_medical_questions(tmp_path)
    page = tmp_path / "page.md"
    page.write_text("as it was")
    assert evidence.main(["--data", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("Left out, since their files are not in")
    assert "| medical questions | qwen |" in printed
    assert evidence.main(["--data", str(tmp_path), "--write", str(page)]) == 1
    assert page.read_text() == "as it was"


def test_what_to_compare_with_may_be_missing(tmp_path, capsys, monkeypatch):
    write_medical_questions(tmp_path)
    monkeypatch.setattr(evidence.peers, "are_installed", lambda: False)
    assert evidence.main(["--data", str(tmp_path)]) == 0
    assert evidence.peers.INSTALL in capsys.readouterr().out


@pytest.mark.skipif(not medical_questions.SOURCE.is_in(DATA), reason="the stored model outputs are not here")
def test_the_real_thing():
    base, *_ = medical_questions.read(DATA / medical_questions.SOURCE.folder)
    found = measure(base)
    assert (base.model, len(base)) == ("mistral-7b-base", 891)
    assert found[BEFORE]["accuracy"].mean == pytest.approx(0.497, abs=0.01)
    assert 0.02 < found["isotonic"]["floor"].mean < found["isotonic"]["ECE"].mean < 0.1

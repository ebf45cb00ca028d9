"""What `demur check` finds by trying: here, what of a configuration would not be in force."""

import re

import pytest

from demur.calibration_store.store import ArtifactStore
from demur.serve.commands.check import check_file
from demur.serve.commands.terminal import now
from demur.serve.config.file import BadConfig
from demur.serve.configuration import load_config
from demur.serve.fitting.fit import fit_model
from tests.conftest import ROOT

LABELS = '["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"]'

DIGITS = """\
models:
  digits:
    task: {{kind: multiclass, labels: {labels}}}
    host: {{kind: classifier, checkpoint: {checkpoint}, device: cpu}}
    scores: [softmax_response, entropy]
    confidence: {{score: softmax_response, calibrator: platt}}
    policy: {{kind: threshold, limit: 0.9}}
    prediction_set: {{alpha: 0.01}}
    calibration: {{data: {data}}}
data: {folder}
artifacts: {folder}/artifacts
"""


@pytest.fixture(scope="module")
def fitted(digits, tmp_path_factory):
    """The text of a configuration, all of which is in force."""
    folder = tmp_path_factory.mktemp("fitted")
    data = digits / "calibration.jsonl"
    text = DIGITS.format(labels=LABELS, checkpoint=ROOT / "deploy/models/digits", data=data, folder=folder)
    (folder / "demur.yaml").write_text(text)
    config = load_config(folder / "demur.yaml")
    done = fit_model(config, "digits", data, clock=now, progress=lambda *_: None)
    ArtifactStore(config.artifacts).promote("digits", done.name, by="tests", why="a test", clock=now)
    return text


@pytest.fixture
def check(tmp_path, capsys):
    """Check a text; return what was printed, and what was wrong."""

    def run(text, **options):
        (tmp_path / "demur.yaml").write_text(text)
        wrong = ""
        try:
            check_file(tmp_path / "demur.yaml", **{"offline": True, **options})
        except BadConfig as error:
            wrong = str(error)
        return " ".join(capsys.readouterr().out.split()), wrong

    return run


def test_what_is_in_force_is_valid_and_that_is_said_last(fitted, check):
    printed, wrong = check(fitted)
    assert wrong == ""
    assert "fitted with other settings" not in printed
    assert printed.endswith("demur.yaml is valid")


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ("limit: 0.9", "limit: 0.95", "policy.limit is 0.95, and 0.9 in the artifact"),
        ("{score: softmax_response,", "{score: entropy,", "confidence.score is entropy, and softmax_response in the"),
        (
            "[softmax_response, entropy]",
            "[softmax_response]",
            "scores is ['softmax_response'], and ['softmax_response'",
        ),
        ("alpha: 0.01", "alpha: 0.05", "prediction_set.alpha is 0.05, and 0.01 in the artifact"),
        ("calibration: {", "calibration: {report_share: 0.3, ", "calibration.report_share is 0.3, and 0.4 in"),
    ],
)
def test_a_setting_that_was_changed_after_the_fit_is_wrong(fitted, check, before, after, said):
    assert before in fitted
    printed, wrong = check(fitted.replace(before, after))
    assert "is valid" not in printed
    place = f"models.digits.{said.split(' is ')[0]}"
    assert re.search(rf"line \d+, column \d+: {place}: artifact digits-", wrong)
    assert f"fitted with other settings than are configured: {said}" in wrong
    assert "run `demur fit digits --promote`" in wrong
    assert "run `demur up --with-older-artifact`, or set `on_difference: warn` at the top of the file" in wrong


def test_of_several_all_are_named_at_their_model(fitted, check):
    _, wrong = check(fitted.replace("limit: 0.9", "limit: 0.95").replace("alpha: 0.01", "alpha: 0.05"))
    assert "models.digits: artifact digits-" in wrong
    assert "policy.limit is 0.95, and 0.9 in the artifact; prediction_set.alpha is 0.05, and 0.01 in" in wrong


def test_an_artifact_of_other_labels_cannot_be_allowed(fitted, check):
    renamed = fitted.replace(f"labels: {LABELS}", 'rename: {"9": nine}')
    for options in ({}, {"with_older_artifact": True}):
        printed, wrong = check(renamed, **options)
        assert "was fitted for another label set" in wrong
        assert "task.rename" in printed + wrong
        assert "on_difference" not in printed + wrong


def test_labels_that_are_not_those_of_the_checkpoint_are_told_once(fitted, check):
    _, wrong = check(fitted.replace('["0", "1"', '["1", "0"').replace('"9"]', '"nine"]'))
    assert "it lacks: 9; these are none of its classes: nine" in wrong
    assert "artifact" not in wrong


def test_without_a_configured_file_it_says_that_one_is_needed(fitted, check):
    _, wrong = check("\n".join(line for line in fitted.splitlines() if "calibration:" not in line))
    assert "run `demur fit digits --data FILE --promote`" in wrong


def test_where_an_older_artifact_is_allowed_it_is_only_noted(fitted, check):
    changed = fitted.replace("limit: 0.9", "limit: 0.95")
    for text, options in ((f"{changed}on_difference: warn\n", {}), (changed, {"with_older_artifact": True})):
        printed, wrong = check(text, **options)
        assert wrong == ""
        assert "note: digits: artifact digits-" in printed
        assert "policy.limit is 0.95, and 0.9 in the artifact" in printed
        assert printed.endswith("demur.yaml is valid")


def test_the_command_ends_with_one_sentence_or_with_valid(fitted, tmp_path, demur):
    (tmp_path / "demur.yaml").write_text(fitted.replace("limit: 0.9", "limit: 0.95"))
    assert demur("check", "--offline", tmp_path / "demur.yaml").startswith(f"demur: {tmp_path / 'demur.yaml'}, line ")
    assert "is valid" in demur("check", "--offline", "--with-older-artifact", tmp_path / "demur.yaml")

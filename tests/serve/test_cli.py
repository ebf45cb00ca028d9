"""The command line: what it prints, and that every foreseen problem is one sentence."""

import functools
import json
import socket
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from importlib.metadata import version

import numpy as np
import pytest
import yaml
from fsspec.registry import _registry
from safetensors.numpy import save_file

from demur.calibration_store.artifact import ModelIdentity, pack
from demur.calibration_store.store import ArtifactStore
from demur.policies.selector import Selector
from demur.policies.threshold import Threshold
from demur.review import queue
from demur.serve.commands.terminal import moment, out
from demur.serve.config.file import BadConfig
from demur.serve.jobs.reports import making
from demur.traffic import log
from demur.traffic.record import ShadowDecision
from demur.uncertainty.platt import PlattMap
from demur.uncertainty.scores import SCORES
from tests.conftest import ROOT, digit_rows, entry, new_case


@pytest.fixture
def folder(tmp_path, digits, monkeypatch):
    """A working directory with a configuration for the digits."""
    content = yaml.safe_load((ROOT / "tests/quickstart.yaml").read_text())
    content["models"]["digits"]["host"]["checkpoint"] = str(ROOT / "deploy/models/digits")
    content["models"]["digits"]["calibration"] = {"data": str(digits / "calibration.jsonl")}
    del content["models"]["sums"]
    (tmp_path / "demur.yaml").write_text(yaml.safe_dump(content))
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DEMUR_CONFIG", raising=False)
    return tmp_path


def change(folder, edit):
    path = folder / "demur.yaml"
    content = yaml.safe_load(path.read_text())
    edit(content)
    path.write_text(yaml.safe_dump(content))


@pytest.mark.slow
def test_fit_report_promote_list_show_and_history(folder, demur):
    rule = {"when": {"confidence": {"below": 0.6}}, "due_minutes": 30}
    change(folder, lambda content: content.update(review={"rules": [rule]}))
    checked = demur("check")
    assert "artifact in force: none yet" in checked
    assert "review rule 1: cases of every model with confidence below 0.6: due within 30 minutes" in checked
    printed = demur("fit", "digits")
    name = printed.split("demur artifacts promote digits ")[1].strip()
    assert "on 200 rows that the fit of 300 has not seen" in printed
    for line in ("before", "calibration", "cross-fitted", "95% intervals", "AUROC", "mahalanobis", "selective_risk"):
        assert line in printed
    assert "is in force for digits (promotion 1)" in demur("artifacts", "promote", "digits", name, "--why", "a try")
    assert name in demur("artifacts", "list")
    assert json.loads(demur("artifacts", "show", "digits", name))["data"]["n"] == 500
    assert "a try" in demur("artifacts", "history", "digits")
    assert f"artifact in force: {name}" in demur("check")
    assert demur("artifacts", "diff", "digits", name) == "they do not differ\n"
    change(folder, lambda content: content["models"]["digits"].update(policy={"kind": "threshold", "limit": 0.5}))
    differing = demur("artifacts", "diff", "digits", name)
    for cell in ("≠", "target_risk", "threshold"):
        assert cell in differing


def test_a_promise_out_of_reach_is_refused_in_a_sentence(folder, demur):
    policy = {"kind": "selective_risk", "max_risk": 0.005}
    change(folder, lambda content: content["models"]["digits"].update(policy=policy))
    said = demur("fit", "digits")
    assert said.startswith("demur: with 300 labelled rows for the rule no limit can promise at most 0.5% wrong answers")
    assert "label at least 996 rows, or write `max_risk: 0.01`" in said
    assert [path.name for path in (folder / "var/artifacts/digits").iterdir()] == ["refused.json"]  # and no artifact
    printed = demur("fit", "digits", "--anyway")
    assert "nothing is promised: 300 labelled rows cannot show" in printed
    assert "label at least 996 rows" in printed


@pytest.mark.slow
def test_fit_on_the_log(folder, demur, database, digits):
    """Of 500 records 100 were held, and half of the others drawn for a spot check."""
    change(folder, lambda content: content.update(database=database.dsn))
    change(folder, lambda content: content["models"]["digits"].pop("prediction_set"))
    held, checked, rest = np.split(np.array(digit_rows(digits, "calibration")), [100, 300])
    entries = []
    with database.transaction() as connection:
        for rows, settings in (
            (held, {"action": "review"}),
            (checked, {"action": "answer", "label_probability": 0.5}),
            (rest, {"action": "answer", "label_probability": 0.5}),
        ):
            entries.append([entry(model="digits", input=row["input"], **settings) for row in rows])
            log.append(connection, entries[-1])
        for rows, logged in zip((held, checked), entries, strict=False):
            queue.enqueue(connection, [new_case(one) for one in logged])
            for row, one in zip(rows, logged, strict=True):
                log.add_outcome(connection, one.record.id, label=row["label"], source="review", author=None)
    printed = demur("fit", "digits", "--since", "1d")
    assert "Fitted on 300 of 300 records with an outcome" in printed
    assert "are left after thinning to a plain sample" in printed
    name = printed.split("promote digits ")[1].strip()
    manifest = json.loads(demur("artifacts", "show", "digits", name))
    data = manifest["data"]
    assert (data["file"], data["n"], data["share_missing"]) == ("traffic", 300, 0)
    assert (data["label_weights"]["min"], data["label_weights"]["max"]) == (1, 2)
    assert 200 < data["label_weights"]["n_after_thinning"] < 300  # the 200 checked ones, and half of the held
    assert manifest["report"]["accuracy"]["n"] == manifest["n_reported"] < 120
    assert data["since"] < data["until"]
    assert "300 records with an outcome" in " ".join(manifest["remarks"])
    assert name in demur("artifacts", "list")
    everything = demur("fit", "digits", "--since", "1d", "--every-outcome-known")
    assert "thinning" not in everything


@pytest.mark.slow
def test_a_fit_on_held_cases_alone_is_refused(logged, demur):
    said = demur("fit", "digits", "--since", "1d")
    assert said.startswith("demur: only held cases are labelled: 100 of 100 answered records of 'digits'")
    assert "set `spot_check` for the model" in said


def test_an_altered_artifact_is_listed_as_refused_and_not_promoted(folder, demur):
    name = demur("fit", "digits").split("promote digits ")[1].strip()
    arrays = folder / "var/artifacts/digits/artifacts" / name / "arrays.safetensors"
    arrays.write_bytes(arrays.read_bytes()[:-1] + b"x")
    assert "refused" in demur("artifacts", "list")
    said = demur("artifacts", "promote", "digits", name)
    assert said == f"demur: artifact {name} was altered: its arrays are not those that were fitted; fit it again"


@pytest.fixture
def two_artifacts(folder, demur, digits):
    """A strict artifact, and a lenient one that was put in force after it."""
    names = []
    for limit in (0.99, 0.5):
        change(folder, lambda content: content["models"]["digits"].update(policy={"kind": "threshold", "limit": limit}))  # noqa: B023 - called at once
        names.append(demur("fit", "digits").split("promote digits ")[1].strip())
        demur("artifacts", "promote", "digits", names[-1])
    return names


def test_rollback(two_artifacts, demur):
    strict, lenient = two_artifacts
    printed = demur("artifacts", "rollback", "digits", "--why", "too lenient")
    assert printed == f"{strict} is in force again for digits (promotion 3), {lenient} no more\n"
    assert "fitted with other settings than are configured" in demur("check")
    assert f"artifact in force: {strict}" in demur("check", "--with-older-artifact")
    history = " ".join(demur("artifacts", "history", "digits").replace("│", " ").split())
    assert "rollback of" in history
    assert "too lenient" in history
    assert demur("artifacts", "rollback", "digits").startswith("demur: there is nothing to roll back to for model")


@pytest.fixture
def three(folder):
    """Names of three stored artifacts that were fitted on nothing: here they only change roles."""
    store, names = ArtifactStore("var/artifacts"), []
    for limit in (0.5, 0.7, 0.9):
        selector = Selector(
            scores={"entropy": SCORES["entropy"]()},
            confidence_score="entropy",
            calibrator=PlattMap(a=-1.0, b=0.0),
            policy=Threshold(limit=limit, meaning="the given limit"),
        )
        files = pack(
            selector,
            model="digits",
            identity=ModelIdentity(checkpoint="digits", fingerprint="f" * 64, labels=tuple("0123456789")),
            facts={"created_at": "2026-11-21T00:00:00", "n_fitted": 0, "data": {"file": "none"}, "report": {}},
        )
        store.save("digits", files)
        names.append(files.name)
    return names


def rows(printed):
    """The lines of a table, each as its words."""
    return [line.replace("│", " ").split() for line in printed.splitlines() if line.startswith("│")]


CANARY = ("--share", 0.1, "--held-between", 0.05, 0.4)


def test_shadow_and_canary(folder, three, demur, monkeypatch):
    monkeypatch.setattr(out, "_width", 250)  # so that no cell is broken into lines
    a, b, c = three
    artifacts = functools.partial(demur, "artifacts")
    assert artifacts("shadow", "digits", b).startswith("demur: no artifact is in force, and a shadow is judged beside")
    artifacts("promote", "digits", a)
    assert artifacts("shadow", "digits", b, "--why", "new limit") == f"{b} is the shadow of {a} for digits (change 2)\n"
    assert artifacts("canary", "digits", b, *CANARY).startswith(f"demur: artifact {b} is the shadow and cannot be")
    assert artifacts("canary", "digits", c, *CANARY, "--max-risk", 0.05).startswith("demur: --max-risk watches answers")
    change(folder, lambda content: content["models"]["digits"].update(spot_check=0.02))
    printed = artifacts("canary", "digits", c, *CANARY, "--max-risk", 0.05)
    assert printed == (f"{c} is the canary for digits (change 3): 10% of traffic, 5% to 40% held, at most 5% wrong\n")
    roles = {line[1]: " ".join(line[2:4]) for line in rows(artifacts("list"))}
    assert roles == {a: "in force", b: "shadow 2026-11-21", c: "canary 10%"}
    assert artifacts("canary", "digits", b, "--share", 2, "--held-between", 0, 1) == (
        "demur: share is 2.0, outside (0, 1)"
    )
    assert artifacts("shadow", "digits", "--off") == f"{b} is no longer the shadow\n"
    assert artifacts("promote", "digits", b) == (
        f"{b} is in force for digits (promotion 5)\n{c} is no longer the canary\n"
    )
    artifacts("canary", "digits", c, *CANARY)
    assert artifacts("rollback", "digits").endswith(f"(promotion 7), {b} no more\n{c} is no longer the canary\n")
    artifacts("canary", "digits", c, *CANARY)
    assert artifacts("canary", "digits", "--off", "--why", "enough") == f"{c} is no longer the canary\n"
    printed = artifacts("history", "digits")
    for sentence in (
        "new limit",
        "10% of traffic, 5% to 40% held, at most 5% wrong",
        f"{c} is no longer the canary",
        f"rollback of {b}",
        "enough",
    ):
        assert sentence in printed
    actions = [line[2] for line in rows(printed)]
    assert actions == ["promote", "shadow", "canary", "shadow", "promote", "canary", "rollback", "canary", "canary"]
    assert demur("artifacts", "canary", "digits", "--off") == "demur: there is no canary to stop"


def test_the_report_of_a_shadow(three, demur, folder, database, tmp_path):
    change(folder, lambda content: content.update(database=database.dsn))
    a, b, _ = three
    demur("artifacts", "promote", "digits", a)
    report = functools.partial(demur, "artifacts", "shadow", "digits", "--report")
    assert report().startswith("demur: model 'digits' has no shadow now; name the artifact that was one")
    demur("artifacts", "shadow", "digits", b)
    assert report().startswith(f"demur: nothing was decided by '{b}' in the shadow of model 'digits' in this range")
    shadow = ShadowDecision(
        artifact=b, prediction="7", confidence=0.95, action="answer", reason="", prediction_set=["7"]
    )
    entries = [replace(entry(model="digits", artifact=a), shadow=shadow) for _ in range(3)]
    with database.transaction() as connection:
        log.append(connection, entries)
    to = tmp_path / "shadow.json"
    printed = report("--since", "1h", "--json", to)
    for words in (f"by {a} (3)", "Cases for people: 3 so far, 0 by the shadow (-3)", "3 of the 3 rows whose decision"):
        assert words in printed
    found = json.loads(to.read_text())
    assert (found["artifact"], found["n"], found["told_by"]) == (b, 3, {a: 3})
    assert [flip["id"] for flip in found["flips"]] == [str(one.record.id) for one in entries]
    demur("artifacts", "shadow", "digits", "--off")
    assert "Cases for people: 3" in demur("artifacts", "shadow", "digits", b, "--report")
    assert "nothing was decided" in demur("artifacts", "shadow", "digits", b, "--report", "--until", "1h")
    assert report("--off") == "demur: --report changes nothing, so it goes without --off and --why"
    assert demur("artifacts", "shadow", "digits", b, "--since", "7d").startswith(
        "demur: --since, --until and --json go"
    )


def test_a_store_that_cannot_be_reached(folder, demur, monkeypatch):
    monkeypatch.setitem(sys.modules, "s3fs", None)
    monkeypatch.delitem(_registry, "s3", raising=False)
    change(folder, lambda content: content.update(artifacts="s3://bucket/artifacts"))
    for command in (("check",), ("artifacts", "list"), ("artifacts", "shadow", "digits", "digits-1")):
        said = demur(*command)
        assert "the artifacts in s3://bucket/artifacts cannot be reached: Install s3fs" in said


@pytest.mark.slow
def test_compare_on_a_file(two_artifacts, demur, digits, tmp_path):
    strict, lenient = two_artifacts
    out = tmp_path / "numbers/compared.json"
    printed = demur("artifacts", "compare", "digits", strict, lenient, "--data", digits / "test.jsonl", "--json", out)
    for line in ("coverage", "selective_risk", "95% interval", "McNemar's exact", "decision flips"):
        assert line in printed
    found = json.loads(out.read_text())
    lines = {line["name"]: line for line in found["numbers"]["differences"]}
    assert lines["coverage"]["a"] < lines["coverage"]["b"]
    assert 0 < lines["coverage"]["lower"] <= lines["coverage"]["difference"] <= lines["coverage"]["upper"]
    assert lines["accuracy"]["difference"] == lines["ece"]["difference"] == 0  # only the limit is another
    cells = found["numbers"]["flips"]["cells"]
    assert (cells["answer_review"]["n"], cells["answer_review"]["current_risk"]) == (0, None)
    assert len(found["flips"]) == min(20, cells["review_answer"]["n"]) > 0
    assert all((flip["a"], flip["b"]) == ("review", "answer") for flip in found["flips"])
    assert all(0.5 <= flip["confidence_a"] == flip["confidence_b"] < 0.99 for flip in found["flips"])
    assert found["flips"][0]["id"] in printed
    assert found["numbers"]["n"] == len(digit_rows(digits))


@pytest.fixture
def logged(folder, database, digits):
    """A hundred test digits of this day in the log, all of them answered and right; outcomes for half of them."""
    change(folder, lambda content: content.update(database=database.dsn))
    rows = digit_rows(digits)[:100]
    entries = [
        entry(model="digits", input=row["input"], prediction=row["label"], action="answer", label_probability=0.0)
        for row in rows
    ]
    entries.append(entry(model="digits", input="no digit", action="abstain"))
    old = entry(model="digits", input=rows[0]["input"], created_at=datetime.now(UTC) - timedelta(days=9))
    with database.transaction() as connection:
        log.append(connection, [*entries, old])
        for each, row in list(zip(entries, rows, strict=False))[::2]:
            log.add_outcome(connection, each.record.id, label=row["label"], source="test", author=None)
        connection.execute("delete from payloads where record_id = %s", (entries[0].record.id,))
    return entries


@pytest.mark.slow
def test_replay(two_artifacts, logged, demur, tmp_path):
    found = {}
    for name in two_artifacts:
        printed = demur("replay", "digits", name, "--since", "7d", "--json", tmp_path / f"{name}.json")
        assert "Left out: 1 records whose input was forgotten and 1 whose input the model does not take." in printed
        assert "cases for people" in printed
        found[name] = json.loads((tmp_path / f"{name}.json").read_text())
    strict, lenient = (found[name] for name in two_artifacts)
    for one in (strict, lenient):
        assert (one["n"], one["n_labelled"], one["forgotten"], one["unusable"]) == (99, 49, 1, 1)
        assert one["then"] == {"answered": 99, "held": 0, "for_people": 0, "n_labelled": 49, "risk": 0}
        assert one["answered_to_held"] == one["more_for_people"] == one["now"]["held"] == 99 - one["now"]["answered"]
        assert one["held_to_answered"] == 0
    assert strict["now"]["answered"] < lenient["now"]["answered"]
    assert 0 < lenient["now"]["n_labelled"] <= 49


@pytest.mark.slow
def test_compare_on_the_log(two_artifacts, logged, demur, tmp_path):
    out = tmp_path / "compared.json"
    demur("artifacts", "compare", "digits", *two_artifacts, "--since", "30d", "--json", out)
    found = json.loads(out.read_text())
    assert (found["numbers"]["n"], found["forgotten"], found["unusable"], found["undefined"]) == (49, 1, 0, 0)
    ids = {str(each.record.id) for each in logged[2::2]}
    assert {flip["id"] for flip in found["flips"]} <= ids


@pytest.mark.slow
def test_nothing_to_replay_or_compare_is_said(two_artifacts, logged, demur, database):
    assert demur("replay", "digits", two_artifacts[0], "--until", "6d").startswith("demur: there are no records of")
    with database.transaction() as connection:
        connection.execute("delete from payloads")
    assert "the inputs of 101 were forgotten" in demur("replay", "digits", two_artifacts[0])
    assert "the inputs of 50 were forgotten" in demur("artifacts", "compare", "digits", *two_artifacts, "--since", "7d")
    with database.transaction() as connection:
        connection.execute("delete from outcomes")
    assert "has an outcome; widen it" in demur("artifacts", "compare", "digits", *two_artifacts, "--since", "7d")


def test_help_names_every_command(demur):
    printed = demur("--help")
    for command in ("up", "check", "fit", "artifacts", "replay", "demo", "audit"):
        assert command in printed
    printed = demur("artifacts", "--help")
    for command in ("list", "show", "history", "promote", "rollback", "shadow", "canary", "compare"):
        assert command in printed


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["check", "nowhere.yaml"], "demur: there is no configuration file nowhere.yaml"),
        (["fit", "nobody"], "demur: there is no model 'nobody' in the configuration; it has: digits"),
        (["fit", "digits", "--data", "nowhere.csv"], "demur: nowhere.csv: there is no such file"),
        (["fit", "digits", "--data", "x.csv", "--since", "1d"], "demur: fit on which rows? give either --since"),
        (["fit", "digits", "--since", "1d", "--fresh"], "demur: leave --fresh out with --since"),
        (["fit", "digits", "--until", "1d"], "demur: --until and --every-outcome-known go with --since"),
        (["fit", "digits", "--every-outcome-known"], "demur: --until and --every-outcome-known go with --since"),
        (["fit", "nobody", "--since", "1d"], "demur: there is no model 'nobody' in the configuration; it has: digits"),
        (["artifacts", "promote", "digits", "digits-1"], "demur: there is no artifact 'digits-1' for model 'digits'"),
        (["artifacts", "rollback", "nobody"], "demur: there is no model 'nobody' in the configuration; it has: digits"),
        (["artifacts", "rollback", "digits"], "demur: no artifact was ever in force for model 'digits'"),
        (
            ["artifacts", "diff", "nobody", "x"],
            "demur: there is no model 'nobody' in the configuration; it has: digits",
        ),
        (["artifacts", "diff", "digits", "x"], "demur: there is no artifact 'x' for model 'digits'"),
        (["artifacts", "history", "nobody"], "demur: there is no model 'nobody' in the configuration; it has: digits"),
        (["artifacts", "shadow", "nobody", "x"], "demur: there is no model 'nobody' in the configuration"),
        (["artifacts", "shadow", "digits"], "demur: which artifact? give its name"),
        (["artifacts", "shadow", "digits", "x", "--off"], "demur: which artifact? give its name"),
        (["artifacts", "shadow", "digits", "--off"], "demur: there is no shadow to end"),
        (["artifacts", "shadow", "digits", "x"], "demur: there is no artifact 'x' for model 'digits'"),
        (["artifacts", "canary", "nobody", "--off"], "demur: there is no model 'nobody' in the configuration"),
        (["artifacts", "canary", "digits"], "demur: which artifact? give its name"),
        (["artifacts", "canary", "digits", "x", "--share", "0.1"], "demur: a canary needs bounds: give --share"),
        (["artifacts", "canary", "digits", "--off", "--share", "0.1"], "demur: --off goes without --share"),
        (["artifacts", "compare", "digits", "x", "y"], "demur: compare on which rows? give either --since"),
        (["artifacts", "compare", "digits", "x", "y", "--since", "1d", "--data", "x"], "demur: compare on which rows?"),
        (["artifacts", "compare", "digits", "x", "y", "--until", "1d", "--data", "x"], "demur: --until goes with"),
        (["artifacts", "compare", "digits", "x", "y", "--data", "x.csv"], "demur: x.csv: there is no such file"),
        (["artifacts", "compare", "nobody", "x", "y", "--since", "1d"], "demur: there is no model 'nobody'"),
        (["replay", "nobody", "x"], "demur: there is no model 'nobody' in the configuration; it has: digits"),
        (["replay", "digits", "x", "--since", "soon"], "demur: 'soon' is neither an age like 7d"),
        (["replay", "digits", "digits-1"], "demur: there is no artifact 'digits-1' for model 'digits'"),
        (["audit", "--since", "yesterday"], "demur: 'yesterday' is neither an age like 7d"),
        (["audit"], "demur: there are no records of 'digits' in this range"),
        (["keys", "make", "ada"], "demur: say what it may do: --scope with one of: predict, review, audit, admin"),
        (["demo", "--data", "nowhere.jsonl"], "demur: nowhere.jsonl: there is no such file"),
    ],
)
def test_a_problem_is_one_sentence(folder, demur, words, said):
    assert demur(*words).startswith(said)


@pytest.mark.slow
def test_the_version(demur):
    assert demur("--version") == f"demur {version('demur')}\n"


def test_the_demo_says_when_nobody_serves(folder, demur, digits):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound, but nobody listens
        said = demur("demo", "--url", f"http://127.0.0.1:{taken.getsockname()[1]}", "--data", digits / "test.jsonl")
    assert said.startswith("demur: no service answers at http://127.0.0.1:")


def test_an_unknown_key_in_the_yaml(folder, demur):
    change(folder, lambda content: content.update(databse="embedded"))
    assert (
        demur("up") == "demur: demur.yaml, line 4, column 1: databse: this key is not known; did you mean `database`?"
    )


def test_a_label_list_that_does_not_fit_the_checkpoint(folder, demur):
    change(folder, lambda content: content["models"]["digits"]["task"]["labels"].pop())
    said = demur("up")
    assert said.startswith("demur: model 'digits': task.labels lists 9 labels, and ")
    assert "has 10 classes" in said


def test_a_checkpoint_that_is_not_there(folder, demur):
    change(folder, lambda content: content["models"]["digits"]["host"].update(checkpoint="./nowhere"))
    assert demur("up") == "demur: model 'digits': host.checkpoint: there is no folder ./nowhere"
    assert demur("check").endswith(": models.digits.host.checkpoint: there is no folder ./nowhere")


def test_a_service_that_others_reach_does_not_start_before_it_is_said_who_gets_in(folder, demur):
    change(folder, lambda content: content.update(http={"host": "0.0.0.0"}))
    for command in ("up", "check"):
        assert "access: nothing says who gets in, at http.host 0.0.0.0, which others reach" in demur(command)
    change(folder, lambda content: content.update(access={"mode": "keys"}))
    assert "others reach it at 0.0.0.0, and whoever asks shows a key or has logged in" in demur("check")


def test_a_taken_port(folder, demur):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        change(folder, lambda content: content["http"].update(port=taken.getsockname()[1]))
        assert "is taken (Address already in use); stop what uses it, or set http.port" in demur("up")


@pytest.mark.slow
def test_a_database_that_is_down_at_start(folder, demur):
    change(folder, lambda content: content.update(database="postgresql://ada:secret@127.0.0.1:9/demur"))
    said = demur("up")
    assert said.startswith("demur: PostgreSQL at 127.0.0.1:9/demur does not answer; start it, or correct")
    assert "secret" not in said


def test_a_missing_package(folder, demur, monkeypatch):
    for module in [name for name in sys.modules if name.startswith(("ray.", "demur.")) or name == "ray"]:
        if module not in ("demur.serve", "demur.serve.cli", "demur.serve.config", "demur.serve.config.file"):
            package, _, name = module.rpartition(".")
            if hasattr(sys.modules.get(package), name):  # so that it is put back afterwards; importing it anew sets it
                monkeypatch.setattr(sys.modules[package], name, getattr(sys.modules[package], name))
            monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "psycopg_pool", None)
    assert (
        demur("up") == "demur: the package 'psycopg_pool' is missing; run `make setup`, or install demur again with pip"
    )


def test_moments():
    now = datetime.now(UTC)
    assert abs(moment("2h") - (now - timedelta(hours=2))) < timedelta(seconds=5)
    assert moment("2026-11-21T08:00") == datetime(2026, 11, 21, 8, tzinfo=UTC)
    assert moment("2026-11-21T08:00+02:00").utcoffset() == timedelta(hours=2)
    assert moment(None) is None
    with pytest.raises(BadConfig):
        moment("soon")


def test_check_tells_what_a_label_tree_makes_of_the_labels(folder, demur):
    (folder / "codes").mkdir()
    facts = {"architectures": ["BertForSequenceClassification"], "num_labels": 3}
    (folder / "codes/config.json").write_text(json.dumps(facts))
    (folder / "codes/tokenizer.json").write_text("{}")
    save_file({}, folder / "codes/model.safetensors")
    model = {
        "task": {"kind": "multilabel", "labels": ["A0101", "A01", "B0203"], "tree": "imdrf"},
        "host": {"kind": "classifier", "checkpoint": "codes"},
        "scores": ["binary_entropy"],
        "confidence": {"score": "binary_entropy"},
        "policy": {"kind": "rejection_rate", "rate": 0.1},
    }
    change(folder, lambda content: content["models"].update(codes=model))
    printed = " ".join(demur("check").split())
    assert "digits: 10 labels, /" in printed
    tree = "codes: 4 labels in a tree of 2 roots and depth 2 (1 without an output of the model: B02), "
    assert tree in printed


def test_check_and_audit_tell_which_outcome_counts_and_the_audit_goes_by_it(folder, demur, database, monkeypatch):
    monkeypatch.setattr(making, "settled", lambda _, moment: moment)  # nobody else writes here
    assert "of several outcomes counts" not in demur("check")
    change(folder, lambda content: content.update(database=database.dsn))
    entries = [entry(model="digits", action="answer", prediction="7") for _ in range(40)]
    with database.transaction() as connection:
        log.append(connection, entries)
        for at, one in enumerate(entries):
            log.add_outcome(connection, one.record.id, label="7" if at < 30 else "1", source="lab", author=None)
            log.add_outcome(connection, one.record.id, label="7", source="api", author=None)

    def audited():
        demur("audit", "--out", folder / "report")
        document = json.loads((folder / "report/digits.json").read_text())
        [risk] = [line for line in document["estimates"] if line["name"] == "selective_risk"]
        return risk["value"], document["labels"]["outcomes_count_by"]

    assert audited() == (0, "the latest")
    change(folder, lambda content: content["models"]["digits"].update(outcomes={"precedence": ["lab", "review"]}))
    words = "lab, then review, then any other source; among equals the latest"
    assert f"of several outcomes counts: {words}" in demur("check")
    assert audited() == (0.25, words)


def test_a_webhook_without_its_secret_is_refused_before_anything_starts(folder, demur, monkeypatch):
    hook = {"url": "https://example.org/demur", "secret_env": "HOOK_SECRET", "events": ["resolved", "expired"]}
    change(folder, lambda content: content.update(review={"webhooks": [hook]}))
    monkeypatch.delenv("HOOK_SECRET", raising=False)
    for command in ("check", "up"):
        said = demur(command)
        assert "the environment variable HOOK_SECRET is not set" in said
        assert "openssl rand -base64 32" in said
    monkeypatch.setenv("HOOK_SECRET", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    assert "told of what is resolved, expired, of all models: https://example.org/demur" in demur("check")

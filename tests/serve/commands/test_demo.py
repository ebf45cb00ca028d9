import json
from types import SimpleNamespace

import numpy as np
import pytest

from demur.client.errors import InvalidRequest, Unreachable
from demur.serve.commands.demo import CORRUPTIONS, DemoSample, of_part, replay, samples, table
from demur.serve.config.task import TaskConfig
from demur.serve.web.native.app import gateway_app
from demur.traffic.table_file import BadDataFile
from tests.conftest import digit_rows
from tests.serve.listening import listening

DIGITS = TaskConfig.model_validate({"kind": "multiclass", "labels": list("0123456789")})


def said(prediction, *, answered):
    """What a service says, as far as the table reads it."""
    return SimpleNamespace(prediction=prediction, answered=answered)


def test_every_row_is_replayed_under_every_corruption(tmp_path):
    path = tmp_path / "rows.jsonl"
    image = np.tile(np.linspace(0, 1, 8), (8, 1))
    path.write_text("\n".join(json.dumps({"input": image.tolist(), "label": str(i)}) for i in range(5)))
    todo = samples(path, seed=3)
    assert [s.part for s in todo] == [part for part in CORRUPTIONS for _ in range(5)]
    assert [s.input for s in todo] == [s.input for s in samples(path, seed=3)]
    for sample in todo:
        pixels = np.array(sample.input)
        assert pixels.shape == (8, 8)
        assert 0 <= pixels.min() <= pixels.max() <= 1
        assert np.allclose(pixels, image, atol=1e-4) == (sample.part == "clean")


def test_texts_and_questions_are_replayed_as_they_are(tmp_path):
    rows = [{"input": {"question": "?", "options": ["x", "y"]}, "label": "A", "group": "hard"}]
    rows += [{"input": "a text", "label": ["x", "y"], "group": "easy"}, {"input": "another", "label": "x"}]
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    todo = samples(tmp_path / "rows.jsonl", seed=0)
    assert [sample.part for sample in todo] == ["all", "easy", "hard"]
    assert {json.dumps(sample.input) for sample in todo} == {json.dumps(row["input"]) for row in rows}
    predictions = [said(sample.label, answered=True) for sample in todo]
    assert [(line.part, line.rows) for line in table(todo, predictions, DIGITS)] == [
        ("all", 1),
        ("easy", 1),
        ("hard", 1),
        ("all", 3),
    ]


def test_ragged_images_are_refused(tmp_path):
    (tmp_path / "rows.jsonl").write_text('{"input": [[0, 1], [0]], "label": "x"}')
    with pytest.raises(BadDataFile, match="rows of the same length"):
        samples(tmp_path / "rows.jsonl", seed=0)


def test_the_table_counts():
    todo, predictions = [], []
    for part in CORRUPTIONS:
        for right, answered in [(True, True), (True, False), (False, True), (False, False)]:
            todo.append(DemoSample(part=part, input=None, label="1"))
            predictions.append(said("1" if right else "2", answered=answered))
    lines = {line.part: line for line in table(todo, predictions, DIGITS)}
    assert list(lines) == [*CORRUPTIONS, "all corrupted"]
    assert (lines["noise"].rows, lines["noise"].answered, lines["noise"].held) == (4, 2, 2)
    assert lines["all corrupted"].rows == 12
    assert (lines["clean"].accuracy, lines["clean"].accuracy_answered, lines["clean"].caught) == (0.5, 0.5, 0.5)


def test_without_errors_or_answers_the_shares_are_undefined():
    todo = [DemoSample(part=part, input=None, label="1") for part in CORRUPTIONS]
    lines = table(todo, [said("1", answered=False)] * len(todo), DIGITS)
    assert np.isnan(lines[0].accuracy_answered)
    assert np.isnan(lines[0].caught)


def test_a_text_is_right_if_it_says_what_the_right_one_does():
    task = TaskConfig.model_validate({"kind": "generate", "match": "number"})
    todo = [DemoSample(part="all", input="What is 4 + 3?", label="7")] * 3
    predictions = [said(text, answered=True) for text in ("It is 7.", "8", None)]
    (line,) = table(todo, predictions, task)
    assert line.accuracy == pytest.approx(1 / 3)


def test_samples_are_replayed_through_a_service(handler, quickstart, database, digits):
    rows = digit_rows(digits)[:30]
    todo = [DemoSample(part=f"part {at % 2}", input=row["input"], label=row["label"]) for at, row in enumerate(rows)]
    advanced = []
    with listening(gateway_app(handler, max_body_bytes=quickstart.limits.body_bytes)) as url:
        told = {"task": DIGITS, "advance": advanced.append}
        predictions = replay(url, "digits", todo, outcomes=True, **told)
        assert len(replay(url, "digits", todo[:3], outcomes=False, **told)) == 3
        with pytest.raises(InvalidRequest, match="input 0: input: the shape is 1 x 1"):
            replay(url, "digits", [DemoSample(part="p", input=[[1.0]], label="1")], outcomes=True, **told)
    assert sum(advanced) == 33
    with database.transaction() as connection:
        found = connection.execute(
            'select r.id::text, r."group", o.label, o.source from records r join outcomes o on o.record_id = r.id'
        ).fetchall()
    wanted = [(one.id, sample.part, sample.label, "demo") for one, sample in zip(predictions, todo, strict=True)]
    assert sorted(found) == sorted(wanted)
    assert len(table(todo, predictions, DIGITS)) == 3


@pytest.mark.slow
def test_a_service_that_is_not_there():
    with pytest.raises(Unreachable, match="no service answers at"):
        replay("http://127.0.0.1:1", "m", [DemoSample(part="p", input="x", label="1")], task=DIGITS, outcomes=True,
               advance=lambda _: None)  # fmt: skip


def test_one_part_alone_is_the_same_as_among_all():
    every = [DemoSample(part=part, input=[[0.5]], label="1") for part in ("clean", "clean", "noise")]
    assert of_part(every, "clean") == every[:2]
    with pytest.raises(BadDataFile, match="--only: 'nois' is not one of: clean, noise; did you mean `noise`"):
        of_part(every, "nois")

from pathlib import Path

import numpy as np
import pytest

from demur.serve.config.task import TaskConfig
from demur.serve.contract.inputs import InvalidRequest
from demur.serve.fitting.labelled_rows import is_label_of, rows_read, said_again, truth_about, truth_of
from demur.serve.hosts.language.matching import is_right
from demur.traffic.dataset import LabelledFile
from demur.traffic.table_file import BadDataFile
from demur.uncertainty.generation import Generation, Replies, as_column
from demur.uncertainty.output import Output

CHOICE = TaskConfig.model_validate({"kind": "choice", "labels": ["A", "B", "C"]})
TEXT = TaskConfig.model_validate({"kind": "generate", "match": "number"})


def rows(inputs, labels, said=None):
    path = Path("rows.jsonl")
    return LabelledFile(path=path, sha256="", inputs=inputs, labels=labels, groups=[None] * len(labels), said=said)


def wrote(*texts):
    replies = [Replies(first=Generation(text=text), said=text) for text in texts]
    certain = np.tile([1.0, 0.0], (len(texts), 1))
    return Output(logits=certain, probabilities=certain, replies=as_column(replies))


def test_a_choice_is_labelled_with_a_letter_or_the_text_of_an_option():
    question = {"question": "?", "options": ["7", "8", "A"]}
    truth = truth_of(rows([question] * 4, ["B", "8", "7", "A"]), CHOICE)
    assert truth.argmax(axis=1).tolist() == [1, 1, 0, 0]  # a letter is a letter, whatever the options say
    with pytest.raises(BadDataFile, match="row 1: '9' is neither"):
        truth_of(rows([question], ["9"]), CHOICE)


def test_a_letter_beyond_the_options_of_a_question_is_no_letter():
    """Else the row would count against whatever the model says."""
    question = {"question": "?", "options": ["C", "D"]}
    assert truth_of(rows([question], ["C"]), CHOICE).argmax(axis=1).tolist() == [0]
    with pytest.raises(BadDataFile, match="row 2: 'E' is neither"):
        truth_of(rows([question, question], ["A", "E"]), CHOICE)
    known = [is_label_of(label, question, TaskConfig(kind="choice")) for label in ("A", "B", "E", "Z", ["A"])]
    assert known == [True, True, False, False, False]  # of what the log says, such rows are left out


def test_a_text_is_right_if_it_says_what_the_right_one_does():
    file = rows(["a", "b"], ["132", "132"])
    truth = truth_about(wrote("It is 132.", "131"), file, truth_of(file, TEXT), TEXT)
    assert truth.tolist() == [[True, False], [False, True]]


def test_what_people_said_of_a_logged_text_counts_while_the_model_writes_the_same():
    log = rows(["a", "b", "c"], ["right", "wrong", "right"], said=["132", "7", "8"])
    output = wrote("132", "7", "9")
    assert said_again(output, log.said, TEXT).tolist() == [True, True, False]
    assert truth_about(output, log, truth_of(log, TEXT), TEXT)[:2].tolist() == [[True, False], [False, True]]


@pytest.mark.parametrize(
    ("text", "right", "match", "same"),
    [
        (" Paris. ", "paris", "exact", True),
        ("It is Paris", "Paris", "exact", False),
        ("It is  PARIS, I think", "Paris", "contains", True),
        ("47 + 85 = 132", "132", "number", True),
        ("about 1,320.0", "1320", "number", True),
        ("-5", "5", "number", False),
        ("no number", "no number", "number", False),  # nothing is known to be the same
        ("", "132", "number", False),
    ],
)
def test_is_right(text, right, match, same):
    assert is_right(text, right, match) is same


def test_inputs_are_read_so_many_at_a_time_and_all_are_checked_before():
    file = rows(list(range(5)), ["a"] * 5)
    assert list(rows_read(file, float, at_a_time=2)) == [[0.0, 1.0], [2.0, 3.0], [4.0]]

    def read(value):
        if value == 4:
            raise InvalidRequest("input: it is a four")
        return value

    with pytest.raises(BadDataFile, match="row 5: input: it is a four"):
        next(rows_read(file, read, at_a_time=2))

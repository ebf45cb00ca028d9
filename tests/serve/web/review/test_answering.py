"""Which labels a case offers, in which form, and by which keys."""

import pytest

from demur.serve.config.review_words import ModelWords
from demur.serve.config.task import LETTERS, TaskConfig
from demur.serve.contract.inputs import InvalidRequest
from demur.serve.web.review.answering import COMMANDS, answering, chosen_labels, command_keys, label_keys, search_prefix


@pytest.mark.parametrize(
    ("labels", "keys"),
    [
        (tuple("0123456789"), tuple("0123456789")),
        (tuple("9876543210"), tuple("9876543210")),  # a label is its own key, wherever it stands
        (LETTERS[:4], tuple("abcd")),
        (("yes", "no"), ("y", "n")),
        (("No", "Yes"), ("n", "y")),
        (("yes", "maybe"), ("1", "2")),
        (tuple("abcdefghij"), tuple("abcdefghij")),
        (("a", "A"), ("1", "2")),  # one key for both would not do
        (("+", "-"), ("1", "2")),  # they are keys of commands
        (("é", "e"), ("1", "2")),  # which not every keyboard has
        ([f"label {i}" for i in range(10)], tuple("1234567890")),
        ([f"label {i}" for i in range(11)], ()),
        (tuple("abcdefghijk"), ()),
    ],
)
def test_keys_of_labels(labels, keys):
    assert label_keys(labels) == keys


@pytest.mark.parametrize(
    "taken", [(), tuple("0123456789"), tuple("abcdefghij"), tuple("cgunhxzqw"), tuple("cgunhxzqwm")]
)
def test_commands_have_keys_that_no_label_has(taken):
    keys = command_keys(taken)
    assert keys.keys() == COMMANDS.keys()
    assert not set(keys.values()) & set(taken)
    assert len(set(keys.values())) == len(keys)


def test_commands_have_keys_of_their_own():
    every = "".join(keys for keys, _ in COMMANDS.values())
    assert len(set(every)) == len(every)
    assert all(any(not key.isalnum() for key in keys) for keys, _ in COMMANDS.values())  # which no label can take


@pytest.mark.parametrize(
    ("task", "form", "searched"),
    [
        ({"kind": "multiclass", "labels": ["a", "b"]}, "buttons", False),
        ({"kind": "multiclass", "labels": [str(i) for i in range(10)]}, "buttons", False),
        ({"kind": "multiclass", "labels": [str(i) for i in range(11)]}, "list", True),
        ({"kind": "binary", "labels": ["no", "yes"]}, "buttons", False),
        ({"kind": "generate"}, "buttons", False),
        ({"kind": "multilabel", "labels": ["a", "b"]}, "ticks", False),
        ({"kind": "multilabel", "labels": [f"l{i}" for i in range(11)]}, "ticks", True),
    ],
)
def test_form(task, form, searched):
    way = answering(TaskConfig.model_validate(task))
    assert (way.form, way.searched, way.tree) == (form, searched, False)


def test_a_question_has_as_many_letters_as_options():
    way = answering(TaskConfig(kind="choice"), 3)
    assert [(choice.label, choice.key) for choice in way.choices] == [("A", "a"), ("B", "b"), ("C", "c")]
    assert way.keys["comment"] == "o"
    assert way.span == "a–c"


def test_a_model_that_is_not_served_offers_nothing():
    way = answering(None)
    assert way.choices == ()
    assert way.span == ""


def test_a_tree_is_told_from_the_top_down_and_every_label_once():
    tree = {"A2": ["A"], "A1": ["A", "B"], "A1a": ["A1"], "B1": ["B"]}
    way = answering(TaskConfig.model_validate({"kind": "multilabel", "labels": ["A2", "A1a", "B1"], "tree": tree}))
    assert way.tree
    assert [(choice.label, choice.depth, choice.above) for choice in way.choices] == [
        ("A", 0, ()),
        ("A1", 1, ("A", "B")),
        ("A1a", 2, ("A1",)),
        ("A2", 1, ("A",)),
        ("B", 0, ()),
        ("B1", 1, ("B",)),
    ]
    assert [choice.key for choice in way.choices] == list("123456")


def test_titles_and_keys_of_labels_are_those_of_the_configuration():
    words = ModelWords.model_validate({"labels": {"bad": {"key": "b", "title": "of no use"}, "good": {"key": "2"}}})
    way = answering(TaskConfig.model_validate({"kind": "multiclass", "labels": ["good", "fair", "bad"]}), words=words)
    assert [(one.key, one.title) for one in way.choices] == [("2", ""), ("1", ""), ("b", "of no use")]
    assert way.span == "2, 1, b"
    ten = answering(TaskConfig.model_validate({"kind": "multiclass", "labels": [f"l{at}" for at in range(10)]}))
    assert ten.span == "1–0"
    many = TaskConfig.model_validate({"kind": "multiclass", "labels": [f"l{at}" for at in range(11)]})
    titled = answering(many, words=ModelWords.model_validate({"labels": {"l3": {"title": "the third"}}}))
    assert [(one.key, one.title) for one in titled.choices[2:4]] == [(None, ""), (None, "the third")]


def test_where_labels_are_found_by_typing_commands_begin_with_a_sign():
    way = answering(TaskConfig.model_validate({"kind": "multilabel", "labels": [f"l{i}" for i in range(11)]}))
    assert (way.prefix, way.keys["comment"], way.keys["none"]) == ("/", "/c", "/0")
    assert answering(TaskConfig.model_validate({"kind": "multilabel", "labels": ["a", "b"]})).prefix == ""


@pytest.mark.parametrize(
    ("labels", "prefix"),
    [(["a", "b/c"], "/"), (["/users", "a"], ":"), (["/a", ":b"], ">"), (["/a", ":b", ">c", "=d"], "=")],
)
def test_the_sign_of_commands_begins_no_label(labels, prefix):
    assert search_prefix(labels) == prefix


def test_none_of_ten_labels_has_a_key_of_its_own():
    ten = answering(TaskConfig.model_validate({"kind": "multilabel", "labels": [f"label {i}" for i in range(10)]}))
    assert "0" in {choice.key for choice in ten.choices}
    assert ten.keys["none"] == "y"


@pytest.mark.parametrize(
    ("labels", "none", "exclusive", "answer"),
    [
        (["a"], False, True, "a"),
        (["a"], False, False, ["a"]),
        (["a", "b"], False, False, ["a", "b"]),
        ([], True, False, []),
        ([], False, False, "no label is ticked"),
        (["a"], True, False, "a is ticked, and 'None of these' was pressed"),
        ([], False, True, "choose one label"),
        ([], True, True, "choose one label"),
        (["a", "b"], False, True, "choose one label"),
    ],
)
def test_what_a_form_says(labels, none, exclusive, answer):
    if isinstance(answer, list) or answer in labels:
        assert chosen_labels(labels, none=none, exclusive=exclusive) == answer
    else:
        with pytest.raises(InvalidRequest, match=answer):
            chosen_labels(labels, none=none, exclusive=exclusive)

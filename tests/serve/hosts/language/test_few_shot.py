import json

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

from demur.serve.config.prompt import FewShotConfig
from demur.serve.contract.inputs import Question
from demur.serve.hosts.language.few_shot import CharacterNgrams, Encoder, FewShot, embedding_fingerprint, few_shot_from
from demur.serve.hosts.language.forms import UnfitExample, form_of
from demur.serve.hosts.language.prompts import Prompts
from demur.traffic.file_form import FileForm
from demur.traffic.table_file import BadDataFile
from tests.serve.scripted import configured

ROWS = [
    ("the pump leaks at the seal", "leak"),
    ("the pump leaks at the valve", "leak"),
    ("the display stays dark", "display"),
    ("the display flickers", "display"),
    ("the battery is empty", "battery"),
]


def index(rows=ROWS, k=2):
    return FewShot(rows, k=k, embedding=CharacterNgrams())


def labels(examples):
    return [label for _, label in examples]


def test_the_nearest_come_last():
    found = index(k=3).nearest("the pump leaks at the seals")
    assert [value for value, _ in found[1:]] == [ROWS[1][0], ROWS[0][0]]
    assert labels(index().nearest("a display that is dark")) == ["display", "display"]


@pytest.mark.parametrize(
    "same", ["the pump leaks at the seal", "  The PUMP leaks\nat the  seal ", "THE PUMP LEAKS AT THE SEAL"]
)
def test_the_item_itself_is_never_among_them(same):
    copies = [*ROWS, ("The pump leaks at the seal", "wrong"), (" the pump leaks at the seal", "wrong")]
    found = index(copies, k=3).nearest(same)
    assert "wrong" not in labels(found)
    assert len(found) == 3
    assert found[-1][0] == ROWS[1][0]


def test_there_may_be_fewer_than_asked_for():
    assert len(index(k=50).nearest("something else")) == len(ROWS)
    assert index(ROWS[:1], k=50).nearest(ROWS[0][0]) == []


def test_the_same_input_gets_the_same_examples_among_equally_near_ones():
    rows = [(f"row {letter}", letter) for letter in "abcdefgh"]
    assert index(rows, k=3).nearest("zzz") == [rows[2], rows[1], rows[0]]  # nothing in common with any
    assert index(rows, k=3).nearest("zzz") == index(rows, k=3).nearest("zzz")


def test_a_question_with_its_options_in_another_order_is_the_same():
    question = Question(question="What is 2 + 2?", options=("3", "4"))
    other = Question(question="What is 2 + 3?", options=("4", "5"))
    turned = Question(question="what is 2 + 2?", options=("4", "3"))
    assert index([(question, "4"), (other, "5")]).nearest(turned) == [(other, "5")]


def form(kind="multiclass"):
    task = {"kind": kind, **({"labels": ["leak", "display", "battery"]} if kind == "multiclass" else {})}
    model = configured(task)
    return form_of(model, Prompts(model))


def few_shot(tmp_path, rows, **settings):
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps({"input": value, "label": label}) + "\n" for value, label in rows))
    return FewShotConfig(examples=path, **settings)


def test_examples_come_from_a_file(tmp_path):
    assert len(few_shot_from(few_shot(tmp_path, ROWS, k=4), form()).nearest("the pump")) == 4
    question = {"question": "?", "options": ["x", "y"]}
    choice = few_shot_from(few_shot(tmp_path, [(question, "y")]), form("choice"))
    assert choice.nearest(Question(question="!", options=("x", "y")))[0][0] == Question(
        question="?", options=("x", "y")
    )


@pytest.mark.parametrize("row", [([[0.1]], "leak"), ("a text", "perhaps"), ("a text", ["leak"])])
def test_a_file_of_other_rows_is_refused(tmp_path, row):
    with pytest.raises(UnfitExample, match="row 2"):
        few_shot_from(few_shot(tmp_path, [ROWS[0], row]), form())


def test_examples_come_from_the_log_where_it_is_at_hand():
    config = FewShotConfig(examples="reviews", k=1)
    assert few_shot_from(config, form(), lambda: iter(ROWS)).nearest("empty battery") == [ROWS[4]]
    with pytest.raises(UnfitExample, match="name a labelled file"):
        few_shot_from(config, form())


def test_the_log_may_hold_nothing_yet_or_what_no_longer_fits():
    config = FewShotConfig(examples="reviews", k=5)
    assert few_shot_from(config, form(), list) is None
    strange = [("a text", "a label of old"), ({"question": "?"}, "leak"), ROWS[0]]
    assert few_shot_from(config, form(), lambda: strange).nearest("a text") == [ROWS[0]]


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    """A tiny encoder with random weights, whose words are those of the rows."""
    folder = tmp_path_factory.mktemp("encoder")
    words = sorted({word for value, _ in ROWS for word in value.split()})
    vocabulary = {word: index for index, word in enumerate(["[PAD]", "[UNK]", *words])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="[PAD]", unk_token="[UNK]").save_pretrained(folder)
    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    BertModel(BertConfig(vocab_size=len(vocabulary), **sizes)).save_pretrained(folder)
    return str(folder)


def test_an_encoder_averages_over_real_tokens_alone(encoder):
    embedding = Encoder(encoder)
    together = embedding.fit([ROWS[2][0], ROWS[0][0]])  # the first is shorter, and padded
    assert together.shape == (2, 16)
    assert np.allclose(together[0], embedding.of(ROWS[2][0])[0], atol=1e-5)


def test_examples_can_be_found_by_an_encoder(tmp_path, encoder):
    found = few_shot_from(few_shot(tmp_path, ROWS, k=1, embedding=encoder), form())
    assert labels(found.nearest("the the display flickers")) == ["display"]
    assert embedding_fingerprint(encoder) not in ("tfidf", encoder)


def spreadsheet(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_bytes("text;class\nla pompe est percée;leak\nthe screen is dark;display\n".encode("cp1252"))
    return path


@pytest.mark.parametrize(
    ("told", "of_calibration"),
    [
        ({"input_column": "text", "label_column": "class", "encoding": "cp1252"}, FileForm()),
        ({"encoding": "cp1252"}, FileForm(input="text", label="class", encoding="utf-8")),
        ({}, FileForm(input="text", label="class", encoding="cp1252")),
    ],
)
def test_a_file_is_read_as_it_is_said_here_or_of_the_calibration(tmp_path, told, of_calibration):
    config = FewShotConfig(examples=spreadsheet(tmp_path), k=1, **told)
    found = few_shot_from(config, form(), file_form=of_calibration)
    assert found.nearest("percée") == [("la pompe est percée", "leak")]


@pytest.mark.parametrize(
    ("told", "said"),
    [
        ({}, r"'la pompe est percée;leak': save the file as UTF-8, or set prompt.few_shot.encoding to cp1252"),
        (
            {"encoding": "cp1252"},
            "there is no 'input'; there are: 'text', 'class'; name the one that is meant with"
            " prompt.few_shot.input_column",
        ),
    ],
)
def test_what_a_file_lacks_is_said_with_the_key_to_set(tmp_path, told, said):
    with pytest.raises(BadDataFile) as refused:
        few_shot_from(FewShotConfig(examples=spreadsheet(tmp_path), **told), form())
    assert said in str(refused.value)
    assert "--" not in str(refused.value)

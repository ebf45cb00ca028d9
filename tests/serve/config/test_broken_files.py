"""Every broken file is answered with one sentence for each mistake, with its line, and in plain words."""

import json
import re
from pathlib import Path

import pytest

from demur.serve.config.file import BadConfig
from demur.serve.configuration import load_config
from tests.serve.config.broken_files import BROKEN, NAMES, SOUND

LIBRARY_WORDS = re.compile(
    r"input should|field required|constrained-|extra input|input tag|union|discriminator|pydantic|validat|tuple"
    r"|\bdict\b|\bstring\b|boolean|\binteger\b|\bfloat\b|\bparse|instance of|repo_id|repo_type|should match|\^|\\d",
    re.IGNORECASE,
)
"""What only those understand who know the libraries."""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A working directory with a checkpoint, as far as a configuration looks at it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DEMUR_NOPE", raising=False)
    (tmp_path / "model").mkdir()
    facts = {"architectures": ["BertForSequenceClassification"], "id2label": dict(enumerate(NAMES))}
    (tmp_path / "model/config.json").write_text(json.dumps(facts))
    return tmp_path


def refused(text: str) -> BadConfig:
    Path("demur.yaml").write_text(text)
    with pytest.raises(BadConfig) as caught:
        load_config(Path("demur.yaml"))
    return caught.value


def test_the_file_is_sound_before_it_is_broken(folder):
    Path("demur.yaml").write_text(SOUND)
    assert load_config(Path("demur.yaml")).models["tickets"].task.labels == tuple(NAMES)


@pytest.mark.parametrize(("sound", "broken", "said"), BROKEN, ids=[broken.strip()[:50] for _, broken, _ in BROKEN])
def test_what_is_said(folder, sound, broken, said):
    assert sound in SOUND
    error = refused(SOUND.replace(sound, broken, 1))
    if isinstance(said, str):
        assert str(error) == f"demur.yaml, {said}"
    else:
        assert list(error.mistakes) == said
        assert error.heading == f"demur.yaml: {len(said)} things are wrong:"
    assert not LIBRARY_WORDS.search(str(error))
    assert "\n" not in str(error)


def test_there_are_enough_of_them():
    assert len(BROKEN) >= 16 + 30


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "demur.yaml is no configuration: it has no keys with values, such as `models:`"),
        ("- 1\n", "demur.yaml is no configuration: it has no keys with values, such as `models:`"),
        ("just a text\n", "demur.yaml is no configuration: it has no keys with values, such as `models:`"),
        ("{}\n", "demur.yaml, line 1, column 1: models: this key is missing"),
        ("models: {}\n", "demur.yaml, line 1, column 9: models: at least 1 entry is wanted here, and there are 0"),
        ("models:\n", "demur.yaml, line 1, column 8: models: a value is missing here: an object of keys and values is"),
    ],
)
def test_files_with_nothing_in_them(folder, text, said):
    assert str(refused(text)).startswith(said)


def test_other_encodings(folder):
    Path("demur.yaml").write_bytes(SOUND.replace("tickets", "täglich").encode("cp1252"))
    with pytest.raises(
        BadConfig, match=r"line 2: byte 0xe4 is no text in UTF-8; it looks like cp1252, which makes of it"
    ):
        load_config(Path("demur.yaml"))
    for encoding in ("utf-16", "utf-8-sig"):
        Path("demur.yaml").write_bytes(SOUND.encode(encoding))
        assert load_config(Path("demur.yaml")).http.port == 8100
    for path, why in ((Path("model"), "is a folder"), (Path("none.yaml"), "there is no configuration file none.yaml")):
        with pytest.raises(BadConfig, match=why):
            load_config(path)


def test_of_very_many_mistakes_the_first_ones_are_told(folder):
    labels = ", ".join(str(number) for number in range(100))
    error = refused(SOUND.replace(", ".join(NAMES), labels))
    assert len(error.mistakes) == 21
    assert error.heading == "demur.yaml: 100 things are wrong:"
    assert error.mistakes[-1] == "and 80 more"

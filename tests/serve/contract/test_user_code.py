"""Names of a user's functions and classes in the configuration."""

import sys

import pytest

from demur.serve.contract.user_code import NotFound, load_named


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A folder with code of a user, in which demur was started."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    return tmp_path


def test_a_module_in_the_current_folder_is_found(project):
    (project / "own_module_of_a_user.py").write_text("def shorter(value):\n    return value[:3]\n")
    assert load_named("own_module_of_a_user:shorter")("abcdef") == "abc"


def test_a_module_of_a_user_takes_the_place_of_no_other(project):
    (project / "colorsys.py").write_text("rgb_to_hsv = 'mine'\n")
    sys.modules.pop("colorsys", None)
    assert callable(load_named("colorsys:rgb_to_hsv"))


@pytest.mark.parametrize("name", ["nowhere_at_all:function", "json:no_such_name", "json"])
def test_a_name_that_leads_nowhere(project, name):
    with pytest.raises(NotFound, match="there is no"):
        load_named(name)

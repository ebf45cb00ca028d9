"""The page of the monitors explains itself where there is nothing to see, and names the models that nobody watches."""

import re

from starlette.testclient import TestClient

from demur.serve.config.file import Config
from demur.serve.web.audit.app import audits_app
from tests.serve.web.audit.traffic import CLASSIFIER


def monitors_of(database, **models):
    config = Config.model_validate(
        {"models": {name: {**CLASSIFIER, **more} for name, more in models.items()}, "artifacts": "nowhere"}
    )
    page = TestClient(audits_app(config, database), root_path="/audit").get("/audit/monitors")
    assert page.status_code == 200
    return " ".join(re.sub(r"<[^>]*>", " ", page.text).split())


def test_where_nothing_is_watched_the_page_says_what_a_monitor_needs(database):
    said = monitors_of(database, plain={}, off={"monitor": False, "spot_check": 0.05})
    assert "What a monitor does" in said
    assert "No model is watched" in said
    assert "plain : none of its answers is checked by chance (spot_check)" in said
    assert "off : the configuration says monitor: false. Take that line out." in said


def test_models_that_are_not_watched_stand_below_the_others(database):
    said = monitors_of(database, seen={"spot_check": 0.05}, plain={})
    assert "Model seen: no artifact decides yet, or nobody has looked." in said
    assert "Not watched plain :" in said

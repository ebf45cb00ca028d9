"""Similar cases on the page of a case, found when somebody asks; and no rule of axe-core is broken by them."""

import pytest
from axe_playwright_python.sync_playwright import Axe

from tests.conftest import resolve
from tests.system.review_site import press

pytestmark = [pytest.mark.slow, pytest.mark.long]


@pytest.mark.parametrize("blind", [False, True])
@pytest.mark.parametrize("scripts", [True, False])
def test_similar_cases_are_shown_when_they_are_asked_for(site, as_reviewer, blind, scripts):
    running = site()
    decided, case_id = running.put("text", "text", blind=blind)
    with running.database.transaction() as connection:
        resolve(connection, decided, "Bob", "bad")
    ada = as_reviewer("Ada", running.url, java_script_enabled=scripts)
    ada.goto(f"{running.url}/review/cases/{case_id}")
    ada.get_by_text("Similar cases that were decided").focus()
    press(ada, "Enter")
    if not scripts:
        ada.get_by_role("link", name="Show them").click()
    ada.locator("ol.similar").get_by_text("The parcel came on time").wait_for()
    assert ada.locator("ol.similar strong").all_text_contents() == ([] if blind else ["bad"])
    if scripts:
        problems = Axe().run(ada, options={"resultTypes": ["violations"]}).response["violations"]
        assert [f"{one['id']}: {node['html']}" for one in problems for node in one["nodes"]] == []

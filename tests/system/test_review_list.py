"""Finding a case in a real browser, with the keyboard alone and on a phone; and no rule of axe-core is broken by it."""

import re

import pytest
from axe_playwright_python.sync_playwright import Axe

from tests.system.review_site import READY, at_case, press

pytestmark = [pytest.mark.slow, pytest.mark.long]

STATES = {
    "found": "?q=parcel&show=all&predicted=fair&sort=-age",
    "nothing found": "?q=nowhere",
    "cannot be looked for": "?q=pa&confidence_from=2",
    "sorted by confidence": "?sort=confidence",
}


@pytest.mark.parametrize("device", [{}, {"has_touch": True, "is_mobile": True}], ids=["desk", "phone"])
def test_the_list_is_accessible_and_wide_enough(site, as_reviewer, device):
    running = site()
    running.put("text", "picture", "list", "fields")
    ada = as_reviewer("Ada", running.url, **device)
    if device:
        ada.set_viewport_size({"width": 390, "height": 844})
    found = {}
    for name, path in STATES.items():
        ada.goto(f"{running.url}/review/{path}")
        for scheme in ("light", "dark"):
            ada.emulate_media(color_scheme=scheme)
            problems = Axe().run(ada, options={"resultTypes": ["violations"]}).response["violations"]
            found[name, scheme] = [f"{one['id']}: {node['html']}" for one in problems for node in one["nodes"]]
        assert ada.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert {name: problems for name, problems in found.items() if problems} == {}
    assert ada.locator("kbd:visible").count() == 0 or not device


def test_a_case_is_found_from_another_one_by_keyboard(site, as_reviewer):
    running = site()
    first, second = running.put("picture", "list")
    ada = as_reviewer("Ada", running.url)
    press(ada, "n")
    at_case(ada, first)
    press(ada, "k")
    ada.wait_for_selector("input[name=q]:focus")
    ada.keyboard.type("broken")
    press(ada, "Enter")
    ada.wait_for_url(re.compile("q=broken"))
    assert ada.locator("td.glance a").count() == 1
    ada.wait_for_selector(READY)
    press(ada, "k")
    ada.keyboard.press("Control+A")
    ada.keyboard.type(str(second))
    press(ada, "Enter")
    ada.wait_for_url(re.compile(f"/cases/{second}"))

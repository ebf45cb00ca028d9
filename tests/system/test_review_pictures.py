"""How pictures look on the review pages, in a real browser."""

import io
import json

import numpy as np
import pytest
from PIL import Image

from demur.serve.contract.pictures.formats import format_of, url_of
from tests.conftest import digit_rows
from tests.serve.contract.pictures.made import SECRET, encoded, told_exif
from tests.system.review_site import KINDS, at_case, press

pytestmark = [pytest.mark.slow, pytest.mark.long]


@pytest.fixture
def digit(digits, monkeypatch):
    """A digit of eight by eight pixels as a kind of case."""
    monkeypatch.setitem(KINDS, "digit", {"model": "digits", "input": digit_rows(digits)[0]["input"]})


def shown(page):
    """The pictures that can be seen: their class, their size on the page, and how they are drawn."""
    return page.locator(".views img:visible").evaluate_all(
        """all => all.map((one) => [
          one.className, one.getBoundingClientRect().width, getComputedStyle(one).imageRendering])"""
    )


@pytest.mark.parametrize("script", [True, False], ids=["with a script", "without"])
def test_a_small_picture_is_smooth_beside_a_thumbnail_and_its_pixels_can_be_seen(site, as_reviewer, digit, script):
    running = site()
    (case_id,) = running.put("digit")
    ada = as_reviewer("Ada", running.url, java_script_enabled=script)
    ada.get_by_role("button", name="Take the next case").click()
    ada.wait_for_url(f"**/{case_id}")
    smooth, pixels, thumbnail = ["smooth", 256, "auto"], ["exact", 256, "pixelated"], ["thumbnail", 96, "auto"]
    assert shown(ada) == [smooth, thumbnail]
    ada.get_by_label("Show the pixels").check()
    assert shown(ada) == [pixels, thumbnail]
    ada.get_by_label("Show the pixels").uncheck()
    assert shown(ada) == [smooth, thumbnail]
    assert not ada.get_by_role("button", name="Enlarge").is_visible()


def test_a_key_shows_the_pixels_at_once_and_the_next_picture_is_smooth_again(site, as_reviewer, digit):
    running = site()
    first, second = running.put("digit", "digit")
    ada = as_reviewer("Ada", running.url)
    press(ada, "n")
    at_case(ada, first)
    press(ada, "p")
    assert shown(ada)[0][0] == "exact"
    press(ada, "3")
    at_case(ada, second)
    assert shown(ada)[0][0] == "smooth"


@pytest.mark.parametrize("name", ["PNG", "JPEG", "WEBP"])
@pytest.mark.parametrize("script", [True, False], ids=["with a script", "without"])
def test_a_photo_in_every_format_is_shown_upright(site, as_reviewer, monkeypatch, name, script):
    """The photo is red above and blue below. The camera was held sideways, and the JPEG says so in its orientation."""
    photo = Image.new("RGB", (300, 400), "red")
    photo.paste("blue", (0, 200, 300, 400))
    if name == "JPEG":
        file = encoded(name, photo.transpose(Image.Transpose.ROTATE_90), exif=told_exif(6), quality=95)
    else:
        file = encoded(name, photo, exif=told_exif())
    form = format_of(file)
    kept = form.read(file).kept
    assert SECRET in file
    assert SECRET not in kept
    monkeypatch.setitem(KINDS, "photo", {"model": "digits", "input": url_of(kept, form)})
    running = site()
    (case_id,) = running.put("photo")
    ada = as_reviewer("Ada", running.url, java_script_enabled=script)
    assert ada.locator("img").count() >= 1  # in the queue
    ada.get_by_role("button", name="Take the next case").click()
    ada.wait_for_url(f"**/{case_id}")
    image = ada.locator(f'.input img[src^="data:{form.media_type};base64,"]')
    assert image.evaluate("one => [one.complete, one.naturalWidth, one.naturalHeight]") == [True, 300, 400]
    box = image.bounding_box()
    seen = Image.open(io.BytesIO(ada.screenshot(clip=box))).convert("RGB")
    width, height = seen.size
    above, below = (seen.getpixel((width // 2, int(height * at))) for at in (0.25, 0.75))
    assert above[0] > 200 > 50 > above[2]
    assert below[2] > 200 > 50 > below[0]


def test_on_a_phone_both_pictures_stand_side_by_side(site, as_reviewer, digit):
    running = site()
    (case_id,) = running.put("digit")
    ada = as_reviewer("Ada", running.url)
    ada.set_viewport_size({"width": 360, "height": 700})
    press(ada, "n")
    at_case(ada, case_id)
    assert [one[:2] for one in shown(ada)] == [["smooth", 192], ["thumbnail", 96]]
    assert ada.locator(".views").bounding_box()["height"] < 200
    ada.set_viewport_size({"width": 320, "height": 600})
    assert ada.evaluate("document.documentElement.scrollWidth") <= 320


def test_what_is_drawn_has_no_edges_of_pixels(site, as_reviewer, digit):
    """The picture of the page itself: between neighbours the grey changes by little, where squares would jump."""
    running = site()
    (case_id,) = running.put("digit")
    ada = as_reviewer("Ada", running.url)
    press(ada, "n")
    at_case(ada, case_id)
    jumps = {}
    for how in ("smooth", "exact"):
        if how == "exact":
            press(ada, "p")
        grey = json.loads(
            ada.locator(f".{how}").evaluate(
                """(image) => {
                  const canvas = Object.assign(document.createElement("canvas"), { width: 256, height: 256 });
                  const context = canvas.getContext("2d");
                  context.imageSmoothingEnabled = getComputedStyle(image).imageRendering !== "pixelated";
                  context.drawImage(image, 0, 0, 256, 256);
                  return JSON.stringify([...context.getImageData(0, 0, 256, 256).data].filter((_, at) => at % 4 === 0));
                }"""
            )
        )
        jumps[how] = np.abs(np.diff(np.array(grey).reshape(256, 256))).max()
    assert jumps["smooth"] < 20
    assert jumps["exact"] > 100

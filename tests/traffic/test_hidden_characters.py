"""What nobody would see is spelled out; languages and emoji stay whole."""

import time
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demur.traffic.hidden_characters import spelled_out


def shown(text):
    return spelled_out(text, lambda character: f"<{ord(character):X}>")


WHOLE = {
    "plain": "Größe → 5\u00a0%\tand\r\nmore",
    "Hebrew": "שלום, עולם! (1948)",
    "Arabic": "مرحبا بالعالم، ١٢٣",
    "Persian, which needs what keeps letters apart": "می‌خواهم کتاب‌ها را",
    "Urdu": "اُردُو ہے",
    "Hindi with a joiner": "क्‍ष र्‍य",
    "Sinhala with a joiner at the end of a word": "ශ්‍රී ක්‍ ලංකා",
    "Khmer with spaces that take no room": "ខ្ញុំ\u200bស្រលាញ់\u200bអ្នក",
    "Mongolian": "ᠮᠣᠩᠭᠣᠯ\u180b ᠠᠳ\u180eᠠ",
    "a family": "👨‍👩‍👧‍👦",
    "a scientist with a skin": "👩🏽‍🔬",
    "a rainbow flag": "🏳️‍🌈",
    "a heart on fire": "❤️‍🔥",
    "hearts and signs in colours": "❤️ ☎️ ©️ ↔️ ❤︎",
    "key caps": "1️⃣ #️⃣ *️⃣",
    "flags of countries": "🇩🇪🇺🇦",
    "the flag of Scotland": "🏴\U000e0067\U000e0062\U000e0073\U000e0063\U000e0074\U000e007f",
    "an ideograph with a variant": "葛\U000e0100城市",
    "full width": "Ａ，Ｂ！",
    "accents": "e\u0301 ñ ệ",
}


@pytest.mark.parametrize("text", WHOLE.values(), ids=WHOLE)
def test_what_languages_and_emoji_need_stays(text):
    assert shown(text) == text


SPELLED = {
    "turned around": ("a\u202eb\u202cc", "a<202E>b<202C>c"),
    "isolated": ("\u2066a\u2067b\u2068c\u2069", "<2066>a<2067>b<2068>c<2069>"),
    "marks of a direction": ("a\u200eb\u200fc\u061cd", "a<200E>b<200F>c<61C>d"),
    "in Hebrew too": ("של\u202eום", "של<202E>ום"),
    "no width, in a Latin word": ("pay\u200bpal\u200c \u200dx\u2060\ufeff", "pay<200B>pal<200C> <200D>x<2060><FEFF>"),
    "between words of two kinds": ("a\u200bខ", "a<200B>ខ"),
    "several after a letter that joins": ("می\u200c\u200c\u200d", "می\u200c<200C><200D>"),
    "a joiner between a picture and nothing": ("👩\u200d a", "👩<200D> a"),
    "a soft hyphen": ("kill\u00ading", "kill<AD>ing"),
    "tags": ("a\U000e0041\U000e0042", "a<E0041><E0042>"),
    "tags behind a flag": ("🏴\U000e0041\U000e007f", "🏴<E0041><E007F>"),
    "a text hidden in variants": ("😀\ufe01\U000e0101\U000e0102", "😀\ufe01<E0101><E0102>"),
    "styles behind a letter": ("a\ufe0fb\ufe00", "a<FE0F>b<FE00>"),
    "a second style": ("❤️\ufe0f", "❤️<FE0F>"),
    "fillers that look like nothing": ("a\u3164b\uffa0\u115f", "a<3164>b<FFA0><115F>"),
    "orders to a terminal": ("\x1b[2J\x07\x9b\x00", "<1B>[2J<7><9B><0>"),
    "ends of lines that few know": ("a\u2028b\u2029", "a<2028>b<2029>"),
    "annotations": ("\ufff9a\ufffab\ufffb", "<FFF9>a<FFFA>b<FFFB>"),
}


@pytest.mark.parametrize(("text", "said"), SPELLED.values(), ids=SPELLED)
def test_what_hides_or_turns_is_spelled_out(text, said):
    assert shown(text) == said


def test_no_character_that_only_formats_is_left_between_latin_letters():
    visible_all_the_same = "؀؁؂؃؄؅۝܏࢐࢑࣢𑂽𑃍"  # signs that stand around Arabic and Kaithi numbers
    for code in range(0x110000):
        character = chr(code)
        if unicodedata.category(character) in ("Cc", "Cf", "Zl", "Zp") and character not in "\t\n\r":
            egyptian = 0x13430 <= code <= 0x1343F  # place hieroglyphs above each other
            left = egyptian or character in visible_all_the_same
            assert (shown(f"a{character}b") == f"a{character}b") is left, f"{code:X}"


@given(st.text())
def test_nothing_but_hidden_characters_changes(text):
    found = []
    left = spelled_out(text, lambda character: found.append(character) or "")
    assert sorted([*left, *found]) == sorted(text)
    assert all(unicodedata.category(character) in ("Cc", "Cf", "Cn", "Lo", "Mn", "Zl", "Zp") for character in found)
    assert shown(shown(text)) == shown(text)


@pytest.mark.slow
@pytest.mark.parametrize("unit", ["a", "\u200b", "می\u200c", "👩\u200d", "🏴\U000e0067", "\ufe0f", "ខ\u200b"])
def test_the_time_grows_with_the_text_and_no_faster(unit):
    def seconds(n):
        text = unit * n
        return min(_timed(text) for _ in range(3))

    assert seconds(200_000) < 40 * max(seconds(20_000), 1e-3)


def _timed(text):
    began = time.process_time()
    shown(text)
    return time.process_time() - began

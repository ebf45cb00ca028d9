"""Whatever reads text from outside takes a time that grows with the text, and hardly faster.

`text_readers.py` has every regular expression and every loop over such text, with the texts on which it has most to do.
A new pattern without an entry in `PATTERNS` fails here.
"""

import ast
import gc
import logging
import time
from collections import Counter
from contextlib import suppress

import pytest

from demur.serve.access.refusals import NotKnown, UnknownHost
from demur.serve.contract.inputs import InvalidRequest
from demur.uncertainty.checks import InvalidInput
from tests.conftest import ROOT
from tests.serve.text_readers import EVERYWHERE, READERS

pytestmark = pytest.mark.slow  # each pattern meets texts of megabytes

ROOMS = ("serve", "client", "traffic", "review", "audit", "calibration_store", "policies", "uncertainty")
MATCHERS = ("compile", "search", "match", "fullmatch", "sub", "subn", "split", "findall", "finditer")

FIXED = "it reads text that stands in the tree"
FILE = "it reads the configuration, or a checkpoint, of whoever starts the service"
CALLERS = "it reads the settings of whoever asks with it"
OURS = "it reads what this service, Ray or a drawing library wrote itself"

PATTERNS: dict[str, tuple[int, tuple[str, ...] | str]] = {
    "client/address.py": (2, CALLERS),
    "client/ids.py": (1, CALLERS),
    "serve/access/needs.py": (2, ("a path",)),
    "serve/access/own_hosts.py": (1, ("Host", "Origin")),
    "serve/access/tokens.py": (1, ("a key", "Authorization")),
    "serve/web/audit/reports/with_bar.py": (5, ("a report",)),
    "serve/web/openai/errors.py": (1, ("an error that repeats what was sent",)),
    "serve/commands/bulk/columns.py": (1, CALLERS),
    "serve/commands/http_answer.py": (1, OURS),
    "serve/commands/starting/first_config.py": (4, CALLERS),
    "serve/config/adapter_facts.py": (1, FILE),
    "serve/config/checkpoint_facts.py": (1, FILE),
    "serve/config/complaint.py": (1, FILE),
    "serve/config/document.py": (1, FILE),
    "serve/config/file.py": (2, ("the address of a database",)),
    "serve/config/redact.py": (1, FILE),
    "serve/config/hosts/remote.py": (2, FILE),
    "serve/config/webhooks.py": (1, FILE),
    "serve/config/yaml_trouble.py": (1, FILE),
    "serve/deployments/host_trouble.py": (2, OURS),
    "serve/web/review/label_search.py": (1, ("a search for labels",)),
    "serve/web/native/deadline.py": (1, ("X-Request-Timeout",)),
    "serve/hosts/tabular/lightgbm_model.py": (5, FILE),
    "serve/hosts/language/label_lists.py": (4, ("labels on lines", "labels as JSON")),
    "serve/hosts/language/matching.py": (2, ("a number in a reply", "a reply that is compared")),
    "serve/hosts/language/pair.py": (1, ("a side",)),
    "serve/hosts/language/prompt_tokens.py": (2, ("a prompt with what steers a model",)),
    "serve/hosts/language/readings.py": (4, ("a reply with a letter", "a reply with a name")),
    "serve/hosts/language/refused_parameters.py": (7, ("what an endpoint refuses",)),
    "serve/local/proxy.py": (2, OURS),
    "serve/gateway/redaction.py": (1, ("an input that is redacted",)),
    "serve/telemetry/logs.py": (1, ("a log line", "a log that comes bit by bit")),
    "serve/telemetry/request_middleware.py": (1, ("X-Request-Id",)),
    "serve/contract/reading/spread_rows.py": (1, FILE),
    "serve/contract/wire.py": (1, ("an Idempotency-Key",)),
    "traffic/hidden_characters.py": (2, ("characters that hide", "text for a terminal")),
    "traffic/spreadsheet.py": (2, ("a cell of a spreadsheet",)),
    "audit/drawing.py": (10, OURS),
    "audit/report/glossary.py": (1, ("the name of a metric",)),
    "audit/report/page.py": (2, OURS),
    "policies/hierarchy.py": (1, ("a code",)),
    "uncertainty/sampled_scores.py": (1, ("the text of a sample",)),
    "uncertainty/self_report.py": (3, ("a confidence", "confidences")),
    "uncertainty/trace.py": (2, ("a trace",)),
}
"""By file, how many patterns it has, and which readers feed them with text; or why nobody from outside does."""

REFUSALS = (ValueError, LookupError, PermissionError, InvalidInput, InvalidRequest, NotKnown, UnknownHost)

SHORT, TIMES = 2**12, 8
"""Characters of the shortest text, and how much longer each is than the one before."""

MEASURABLE_SECONDS = 0.002
"""Of processor time; a text that was read more quickly counts as much."""

LONGEST = 2**18
"""Characters, at which a reader that squares them takes far longer than `FASTER` times `MEASURABLE_SECONDS`."""

FASTER = 24
"""So many times the time of an eighth of a text at most: in linear time it is 8, in quadratic time 64."""

MEASUREMENTS = 3
"""Of the growth, of which one must be slow enough."""

TRIES = 5
"""The least of so many counts: what else the machine does makes one longer, and never shorter."""


def patterns_in_the_tree() -> Counter[str]:
    """How many uses of `re` each file has."""
    found: Counter[str] = Counter()
    for room in ROOMS:
        for path in (ROOT / room).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                assert not (isinstance(node, ast.ImportFrom) and node.module in ("re", "re2", "regex")), path
                if (
                    isinstance(node, ast.Call)
                    and isinstance(node.func, ast.Attribute)
                    and isinstance(node.func.value, ast.Name)
                    and node.func.value.id in ("re", "re2", "regex")
                    and node.func.attr in MATCHERS
                ):
                    found[str(path.relative_to(ROOT))] += 1
    return found


def test_every_pattern_is_in_the_table():
    assert patterns_in_the_tree() == {file: number for file, (number, _) in PATTERNS.items()}
    named = {name for _, readers in PATTERNS.values() if isinstance(readers, tuple) for name in readers}
    assert named <= READERS.keys()


def seconds_of(read, text: str, *, enough: float) -> float:
    """Processor time of this thread: the least of several counts, or the first that is below `enough`."""
    took = []
    while len(took) < TRIES and min(took, default=enough) >= enough:
        gc.disable()  # which looks at all objects of the tests before, now and then
        try:
            began = time.thread_time()
            with suppress(*REFUSALS):
                read(text)
            took.append(time.thread_time() - began)
        finally:
            gc.enable()
    return min(took)


def check_grows_with_the_text(read, make) -> None:
    """Measure again where the time grew too fast: other programs slow one measurement, and never all of them alike."""
    for _ in range(MEASUREMENTS - 1):
        with suppress(AssertionError):
            measure_growth(read, make)
            return
    measure_growth(read, make)


def measure_growth(read, make) -> None:
    """Lengthen a text until it takes a time that can be measured, and then once more."""
    length, before = SHORT, seconds_of(read, make(SHORT), enough=MEASURABLE_SECONDS)
    while length < LONGEST:
        length, measured = length * TIMES, before >= MEASURABLE_SECONDS
        most = FASTER * max(before, MEASURABLE_SECONDS)
        took = seconds_of(read, make(length), enough=most if measured or length == LONGEST else MEASURABLE_SECONDS)
        assert took < most, (
            f"{length:,} characters take {took:.4f} s, and {length // TIMES:,} take {before:.4f} s: {make(60)!r}"
        )
        if measured:
            return
        before = took


@pytest.mark.long
@pytest.mark.parametrize("name", READERS)
def test_the_time_grows_with_the_text(name, caplog):
    caplog.set_level(logging.CRITICAL)
    reader = READERS[name]
    for make in (*EVERYWHERE, *reader.worst):
        check_grows_with_the_text(reader.read, make)


def spin(steps: float) -> None:
    for _ in range(int(steps)):
        pass


@pytest.mark.parametrize("steps_at_longest", [10**7, 4 * 10**7])
def test_a_quadratic_reader_is_noticed(steps_at_longest):
    with pytest.raises(AssertionError, match="characters take"):
        check_grows_with_the_text(lambda text: spin(steps_at_longest * (len(text) / LONGEST) ** 2), lambda n: "a" * n)


def test_a_linear_reader_passes():
    for steps_at_longest in (10**4, 10**6, 10**7):
        check_grows_with_the_text(
            lambda text, most=steps_at_longest: spin(most * len(text) / LONGEST), lambda n: "a" * n
        )

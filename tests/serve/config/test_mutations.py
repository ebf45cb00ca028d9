"""A configuration that is changed at random ends in a `BadConfig` or is sound; never in a traceback, and never with a
key that nobody knows."""

import copy
import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from demur.serve.config.file import BadConfig
from demur.serve.configuration import load_config
from tests.serve.config.broken_files import NAMES
from tests.serve.config.test_broken_files import LIBRARY_WORDS

TEXT = """\
data: var
database: embedded
keep_inputs_days: 30
keep_records_days: 60
graceful_stop_seconds: 20
models:
  tickets:
    task: {kind: multiclass, rename: {age_limit: limit_of_age}}
    host:
      kind: classifier
      checkpoint: model
      device: cpu
      batch: {max_size: 8}
      autoscaling: {min: 1, max: 2, target: 0.5}
    scores: [softmax_response, entropy, {mahalanobis: {shrinkage: 0.05, as: far}}]
    confidence: {score: entropy, calibrator: {isotonic: {interpolation: step}}}
    policy:
      kind: all_of
      gates: [{in_distribution: {score: far, quantile: 0.99}}, {set_size: {at_most: 2}}]
      rule: {kind: selective_risk, max_risk: 0.05, delta: 0.1}
    prediction_set: {kind: regularised, penalty: 0.2, alpha: 0.05}
    spot_check: {rate: 0.1, floor: 0.01, groups: {east: 0.2}, allocate: uncertainty}
    monitor: {max_risk: 0.05, on_alarm: tighten}
    control: {kind: tracked_limit, max_risk: 0.1}
    outcomes: {precedence: [lab, review]}
    calibration: {data: rows.csv, input_column: text, report_share: 0.5, seed: 1}
  codes:
    task: {kind: multilabel, labels: [a, b, c], tree: {a: b}, thresholds: {fixed: {limit: 0.4, labels: {a: 0.3}}}}
    host: {kind: vllm, checkpoint: model, engine: {max_model_len: 100}, max_tokens: 20}
    scores: [g_nll, {token_entropy: {reduce: max}}]
    confidence: {score: g_nll, right: jaccard}
    label_confidence: {isotonic: {mode: joint, k: 3}}
    policy: {kind: threshold, limit: 0.5, labels: {a: 0.6}}
    prompt: {reply: json}
    samples: {max: 5, temperature: 0.7}
  chat:
    task: {kind: generate, match: number}
    host: {kind: openai, base_url: "http://127.0.0.1:1/v1", model: m, extra_body: {top_k: 5}, timeout_seconds: 5}
    scores: [g_nll, semantic_entropy, {cascade: {first: g_nll, then: semantic_entropy, limit: 0.5}}]
    confidence: {score: cascade, calibrator: platt}
    policy: {kind: rejection_rate, rate: 0.1}
    chat: {stream: hold, refusal: No.}
http: {host: 127.0.0.1, port: 8100, grpc_port: 8101}
gateway: {autoscaling: {min: 1, max: 3}}
console: {replicas: 1}
access: {mode: keys, url: "https://demur.example.org", oidc: {issuer: "https://id.example.org", client_id: demur}}
review:
  order: uncertainty
  rules: [{when: {models: [tickets], confidence: {below: 0.6}, scores: {entropy: {above: 1}}}, priority: 3}]
  prone: {disagreement_above: 0.2}
  people: {ada: {adjudicates: true, models: [tickets]}, ben: {leads: true}}
  webhooks: [{url: "https://example.org/hook", secret_env: HOOK, events: [resolved]}]
audit: {every_hours: 24h, window_days: 7d, every_outcome_known: [tickets]}
redact: {patterns: {mail: {pattern: "[a-z]+@", replace: "[mail]"}}}
limits: {batch: 100}
telemetry: {logs: json}
"""
CONTENT = yaml.safe_load(TEXT)

NAMED_BY_PEOPLE = re.compile(
    r"models|models\.codes\.host\.engine|models\.chat\.host\.extra_body|models\.tickets\.spot_check\.groups"
    r"|models\.codes\.task\.tree|redact\.patterns|review\.people"
)
"""Mappings whose keys are nobody's but the writer's."""


def mappings(content: Any, place: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Where there are mappings and lists."""
    inner = content.items() if isinstance(content, dict) else enumerate(content) if isinstance(content, list) else ()
    return [
        *([place] if isinstance(content, dict | list) else []),
        *(p for k, v in inner for p in mappings(v, (*place, k))),
    ]


PLACES = mappings(CONTENT)
SECTIONS = [
    place
    for place in PLACES
    if isinstance(eval("c" + "".join(f"[{step!r}]" for step in place), {"c": CONTENT}), dict)
    and not NAMED_BY_PEOPLE.fullmatch(".".join(map(str, place)))
]

ODD = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**30), 10**30),
    st.floats(),
    st.text(max_size=8),
    st.sampled_from(["", "yes", "1", "0.5", "env:NOPE", "file:/none", "a: b", "*", "~", "tickets", "entropy", "imdrf"]),
    st.lists(st.one_of(st.integers(), st.text(max_size=3), st.none(), st.lists(st.none(), max_size=1)), max_size=3),
    st.dictionaries(st.text(max_size=4), st.one_of(st.none(), st.integers(), st.text(max_size=3)), max_size=2),
)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model").mkdir()
    facts = {"architectures": ["BertForSequenceClassification"], "id2label": dict(enumerate(NAMES))}
    (tmp_path / "model/config.json").write_text(json.dumps(facts))
    return tmp_path


def said_of(text: str | bytes) -> BadConfig | None:
    """What is wrong with a configuration; None where it is sound. Anything else raised is a fault of ours."""
    Path("demur.yaml").write_bytes(text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass"))
    error = None
    try:
        load_config(Path("demur.yaml"))
    except BadConfig as refused:
        error = refused
    assert "\n" not in str(error)
    return error


def at(content: Any, place: tuple[Any, ...]) -> Any:
    for step in place:
        content = content[step]
    return content


def test_it_is_sound_before_it_is_changed(folder):
    assert said_of(TEXT) is None


@pytest.mark.slow
@given(st.sampled_from(SECTIONS), st.from_regex(r"[a-z]{3,9}_?x", fullmatch=True), ODD)
def test_a_key_that_nobody_knows_never_passes(folder, place, key, value):
    content = copy.deepcopy(CONTENT)
    at(content, place)[key] = value
    error = said_of(yaml.safe_dump(content, allow_unicode=True))
    assert error is not None
    assert key in str(error)


@pytest.mark.slow
@given(st.sampled_from(PLACES), st.integers(0, 20), ODD, st.sampled_from(["replace", "remove", "repeat", "rename"]))
@example(("models", "tickets", "task"), 0, "generate", "replace")
@example(("models", "chat", "task"), 0, [1], "replace")
@example((), 0, "\n\n  ", "rename")
def test_a_value_that_is_another_is_refused_in_words_or_taken(folder, place, which, value, how):
    content = copy.deepcopy(CONTENT)
    inside = at(content, place)
    keys = list(inside) if isinstance(inside, dict) else list(range(len(inside)))
    if keys:
        key = keys[which % len(keys)]
        if how == "replace":
            inside[key] = value
        elif how == "remove":
            del inside[key]
        elif isinstance(inside, list):
            inside.append(copy.deepcopy(inside[key]))
        elif how == "rename":
            inside[str(value)[:8]] = inside.pop(key)
        else:
            inside[key] = [inside[key], inside[key]]
    error = said_of(yaml.safe_dump(content, allow_unicode=True))
    told = re.sub(r"'[^']*'|`[^`]*`", "", str(error))  # but for what was written, which may be any word
    assert not LIBRARY_WORDS.search(told), told


@pytest.mark.slow
@given(
    st.lists(st.tuples(st.integers(0, len(TEXT)), st.one_of(st.text(max_size=2), st.none())), min_size=1, max_size=4)
)
@example([(0, "\t")])
@example([(0, "\0")])
@example([(5, None)])
def test_a_slip_of_the_keys_is_refused_in_words_or_taken(folder, slips):
    text = TEXT
    for place, typed in slips:
        text = text[:place] + (typed or "") + text[place + (typed is None) :]
    said_of(text)


@given(st.binary(max_size=300))
def test_no_file_ends_in_a_traceback(folder, content):
    said_of(content)

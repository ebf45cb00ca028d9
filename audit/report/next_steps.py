"""What to do now, by what an audit found: each step in a sentence, with the command to type where there is one."""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from demur.audit.report.judgement import PromiseVerdict
from demur.policies.risk_bound import labels_needed

MOST = 4
"""Steps that are named."""

MOST_MISSING = 0.05
"""Share of the reviews that were asked for and have not come, above which they come first."""

SOME_LIMIT = 0.02
"""A share of wrong answers for an example, where nobody has named one."""

HOLDS_STRANGERS = "in_distribution"


def next_steps(document: Mapping[str, Any]) -> list[dict[str, str]]:
    """Return the steps, the most urgent first. A command is empty where there is nothing to type."""
    headline, why = document["headline"], document["why"]
    verdict, model = headline["verdict"], shlex.quote(str(document["model"]))
    steps: list[tuple[str, str]] = []
    if verdict == PromiseVerdict.BROKEN:
        steps += _of_broken(document, why, model)
    labels = document["labels"]
    missing = labels["share_missing"] or 0
    bar = 0 if verdict == PromiseVerdict.UNDECIDED else MOST_MISSING  # few missing reviews may be what decides nothing
    if not labels["all_known"] and (labels["refused"] or missing > bar):
        steps.append(("Decide the open cases at `/review/`: without their labels a verdict may turn", ""))
    if verdict == PromiseVerdict.UNDECIDED:
        steps += _of_undecided(document, model)
    if any(one["verdict"] == PromiseVerdict.NOTHING for one in headline["subjects"]):
        steps += _of_nothing(document, model)
    if any(one["says"] == "worse" for one in why["calibration"]):
        steps.append(
            (
                "Fit the calibrator again on labelled traffic: here it made the confidence worse",
                _fit_again(document, model),
            )
        )
    if labels["never"] and not labels["all_known"]:
        steps.append(("Give every answer a chance to be checked: set `spot_check`, such as 0.02, in the YAML", ""))
    if not steps:
        steps.append(("Nothing has to be done. The next audit tells whether it stays so", ""))
    return [{"do": do, "command": command} for do, command in dict(_unlike(steps)).items()][:MOST]


def _unlike(steps: Sequence[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """The steps without those whose command has stood already."""
    commands: set[str] = set()
    for do, command in steps:
        if not command or command not in commands:
            commands.add(command)
            yield do, command


def _of_broken(document: Mapping[str, Any], why: Mapping[str, Any], model: str) -> Iterator[tuple[str, str]]:
    sure = [one for one in why["contributors"] if one["sure"]]
    artifacts = [one for one in sure if one["by"] == "artifact"]
    last = (document["records"]["in_force"] or [{}])[-1].get("artifact")
    if any(one["name"] == last for one in artifacts) and len(document["records"]["in_force"]) > 1:
        yield (
            "The excess came with the last artifact: put the one before in force again",
            (f"demur artifacts rollback {model}"),
        )
    groups = [one["name"] for one in sure if one["by"] == "group"]
    if groups:
        names = ", ".join(groups[:3])
        if HOLDS_STRANGERS in ((document["headline"]["policy"] or {}).get("gates") or ()):
            yield (
                f"Hold more inputs like those of {names}: the gate `{HOLDS_STRANGERS}` lets too many of them pass; give"
                " it a lower `quantile`, or another score, and fit again",
                "",
            )
        else:
            yield (
                f"Hold inputs like those of {names}: put the gate `{HOLDS_STRANGERS}` before the rule"
                " (`policy: {kind: all_of, …}`), and fit again",
                "",
            )
    yield "Fit again on the labelled traffic of this range", _fit_again(document, model)
    yield "Until then, let people see more: let the alarm hold answers (`monitor.on_alarm: tighten`)", ""


def _fit_again(document: Mapping[str, Any], model: str) -> str:
    since, until = (str(document[end]).replace("+00:00", "Z") for end in ("since", "until"))
    return f"demur fit {model} --since {since} --until {until}"


def _of_undecided(document: Mapping[str, Any], model: str) -> Iterator[tuple[str, str]]:
    open_ones = [one for one in document["headline"]["judgements"] if one["verdict"] == PromiseVerdict.UNDECIDED]
    target = next((one["target"] for one in open_ones if one["target"]), None)
    labelled = document["labels"]["labelled_answered"]
    if document["labels"]["all_known"]:  # spot checks would tell what is known already
        yield "Wait for more answers: the outcomes of this range are said to be known, and they are too few", ""
    elif target and 0 < target < 1 and labelled < (needed := labels_needed(target)):
        yield (
            f"Check more answers: {labelled:,} have a label, and at least {needed:,} are needed even without an error."
            " Raise `spot_check` in the YAML",
            "",
        )
    elif target:
        yield "Check more answers: raise `spot_check` in the YAML, so that the interval becomes narrower", ""
    yield "Or look at a longer range", f"demur audit --model {model} --since 90d"


def _of_nothing(document: Mapping[str, Any], model: str) -> Iterator[tuple[str, str]]:
    policy = document["headline"]["policy"] or {}
    aim = policy.get("aim") or SOME_LIMIT
    yield (
        "Hold the answers to a share of wrong ones that you would accept",
        (f"demur audit --model {model} --max-risk {aim:g}"),
    )
    yield (
        f"Or let the policy promise it: write `policy: {{kind: selective_risk, max_risk: {aim:g}}}` into the YAML,"
        " and fit again",
        f"demur fit {model}",
    )

# %% [markdown]
# # A month of review and audit, played in two minutes
#
# A service reads digits from forms. Every day it answers where it is sure. People look at the rest, and at a sample
# of the answers. On day 12 the scanner breaks: the lower part of each picture is missing. Nobody tells the service.
# This tutorial plays four weeks, one day in a few seconds. What notices the fault, how soon, and what happens then?
#
# You need `pip install 'demur[embedded]'`.
#
# ## The service
#
# A random forest makes the predictions outside of the service, which gets its probabilities (`kind: given`) and
# decides. These are the settings that matter:
#
# * `policy`: at most 5% of the answers are wrong, except with probability 5%.
# * `spot_check`: three in ten answers, drawn at random, are shown to a person as well. Without these checks nobody
#   would know how good the answers are.
# * `monitor`: if the checked answers show that the promise is broken, hold everything until a person says otherwise.

# %%
import tempfile
import time
from datetime import UTC, datetime

import httpx
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier

import demur

folder, rng = tempfile.mkdtemp(), np.random.default_rng(0)
images, digits = load_digits(return_X_y=True)
taught, labelled, later = np.split(rng.permutation(len(digits)), [300, 1000])
forest = RandomForestClassifier(random_state=0).fit(images[taught], digits[taught])
columns = np.column_stack([forest.predict_proba(images[labelled]), digits[labelled]])
np.savetxt(f"{folder}/labelled.csv", columns, "%g", ",", header="0,1,2,3,4,5,6,7,8,9,label", comments="")

model = {
    "task": {"kind": "multiclass", "labels": list("0123456789")},
    "host": {"kind": "given", "gives": ["probabilities"]},
    "scores": ["softmax_response"],
    "confidence": {"score": "softmax_response"},
    "policy": {"kind": "selective_risk", "max_risk": 0.05},
    "spot_check": 0.3,
    "monitor": {"max_risk": 0.05, "on_alarm": "hold_all", "reference": 300},
    "calibration": {"data": "labelled.csv"},
}
service = demur.start_service({"models": {"forms": model}, "review": {"undo_seconds": 0}}, folder=folder)
people = httpx.Client(base_url=service.url, headers={"X-Demur-Reviewer": "ada"}, timeout=60)

# %% [markdown]
# ## A day
#
# Fifty forms come. `play_day` returns the share that is answered, and the share of these answers that is wrong.
#
# Then Ada, a reviewer, works until no case waits. The function plays her part too: she has the form on paper, so she
# knows what is right.

# %%


def play_day(broken: bool) -> tuple[float, float]:
    rows = rng.choice(later, 50)
    found = forest.predict_proba(images[rows] * (np.arange(64) < (40 if broken else 64)))
    done = service.client.predict_many("forms", [demur.Item(output={"probabilities": p.tolist()}) for p in found])
    truth = {one.id: str(digit) for one, digit in zip(done, digits[rows], strict=True)}
    while (claim := people.post("/review/v1/cases/next", json={})).status_code == 200:
        label = truth[(case := claim.json())["case_id"]]
        people.post(f"/review/v1/cases/{case['case_id']}/answer", json={"token": case["token"], "label": label})
    wrong = [one.prediction != truth[one.id] for one in done if one.answered]
    return len(wrong) / len(done), np.mean(wrong) if wrong else np.nan


# %% [markdown]
# ## The month
#
# Once the alarm about the risk is on, everything is held. In the evening of day 19 the scanner is repaired. Somebody
# undoes all alarms that are on, and says why. At the end of each week we ask for an audit.

# %%
days, first, monday = [], {}, datetime.now(UTC)
for day in range(1, 29):
    days.append(play_day(broken=12 <= day < 20))
    time.sleep(2)  # monitors look every five seconds, so an alarm comes some days late here
    for alarm in people.get("/audit/v1/monitors").json()["alarms"]:
        first.setdefault(alarm["kind"], day)
        if day == 19:
            service.run("alarms", "undo", str(alarm["id"]), "--why", "the scanner is mended", "--by", "ada")
    if day % 7 == 0:
        people.post("/audit/v1/audits", json={"model": "forms", "since": monday.isoformat()}).raise_for_status()
        monday = datetime.now(UTC)
    print(f"[{'#' * day}{'.' * (28 - day)}] day {day}", end="\r", flush=True)

# %%
plt.plot(np.r_[1:29], days, "o-", label=["share of the forms that is answered", "share of these answers that is wrong"])
plt.axvspan(12, 19, alpha=0.15, color="red", label="the scanner is broken")
for colour, (kind, day) in zip("rgb", first.items(), strict=False):
    plt.axvline(day, color=colour, label=f"first alarm about {kind}: day {day}")
_ = plt.legend(fontsize="small", loc="upper center", bbox_to_anchor=(0.5, -0.08), ncols=2)

# %% [markdown]
# **What you see.** When the scanner breaks, the forest is less sure, and somewhat fewer forms are answered: this stops
# some errors, and not most. The answers that remain are wrong far more often than promised, because the promise was
# about pictures like the calibration rows. There are three kinds of alarm. An alarm about `risk` says that the checked
# answers break the promise. It may act: here it holds everything from then on. Alarms about `confidence` and `held`
# say that the traffic differs from before. They need no labels, and only notify.
#
# ## What the audits say
#
# An audit looks at a week, and estimates the share of wrong answers among *all* answers from the checked ones, with
# an interval. It does not know about the scanner.

# %%
while len(reports := service.client.reports("forms")) < 4:
    time.sleep(1)
for week, report in enumerate(sorted(reports, key=lambda one: one.since), start=1):
    print(f"week {week}: {report.verdict}. {report.why}")

# %% [markdown]
# A verdict is `kept` or `broken` only where the whole interval lies on one side of the promise. A week has few
# checked answers here, so an audit may say `not enough evidence`: more checks would be needed to decide. The reports
# are pages at `/audit/`; `docs/audits.md` and `docs/monitors.md` explain the rest.

# %%
service.stop()

# %% [markdown]
# # A language model behind a gate
#
# An application asks a language model, and uses whatever comes back. Sometimes the answer is wrong. In this tutorial
# demur stands between the two. It speaks the protocol of OpenAI, so the application keeps its client. An answer that
# is sure enough comes back as before. demur holds the others: the application tells its user so, and a person looks
# at the answer.
#
# The model is the small one in demur's repository. It adds numbers on a CPU, and makes real mistakes with large ones.
# You can put any other model in its place: in vLLM, or behind an endpoint (`docs/running.md`).
#
# You need a clone of the repository, and `pip install 'demur[transformers,embedded,openai]'`. The tutorial takes a
# minute.
#
# ## Questions with their right answers
#
# A gate must be calibrated on labelled questions that are like the later ones. Here the questions are sums, so labels
# are cheap.

# %%
import json
import random
import tempfile
from collections import Counter
from pathlib import Path

import httpx
import matplotlib.pyplot as plt
from openai import OpenAI

import demur

rng = random.Random(0)
folder = Path(tempfile.mkdtemp())


def draw_sum() -> tuple[str, str]:
    """A question and its right answer."""
    least, most = rng.choice([(10, 99), (100, 999)])
    one, other = rng.randint(least, most), rng.randint(least, most)
    return f"What is {one} + {other}?", str(one + other)


with (folder / "labelled.jsonl").open("w") as file:
    for question, right in (draw_sum() for _ in range(1000)):
        print(json.dumps({"input": {"messages": [{"role": "user", "content": question}]}, "label": right}), file=file)

# %% [markdown]
# ## The gate
#
# This is the whole configuration. The task is to `generate` a text, in which the `number` must be right. The score
# `g_nll` says how improbable the model itself finds its answer. `selective_risk` promises: at most 5% of what passes
# is wrong, except with probability 10%. `refusal` is what the application gets instead of an answer that is held.
#
# `demur.start_service` starts demur beside this notebook, with a database of its own. First it fits the gate on the
# labelled questions.

# %%
model = {
    "task": {"kind": "generate", "match": "number"},
    "host": {
        "kind": "transformers",
        "checkpoint": str(Path(demur.__file__).resolve().parents[1] / "deploy/models/sums"),
    },
    "scores": ["g_nll"],
    "confidence": {"score": "g_nll", "calibrator": "isotonic"},
    "policy": {"kind": "selective_risk", "max_risk": 0.05, "delta": 0.1},
    "chat": {"refusal": "I am not sure. A colleague will look at it."},
    "calibration": {"data": "labelled.jsonl"},
}
service = demur.start_service({"models": {"sums": model}, "review": {"undo_seconds": 0}}, folder=folder)
print(service.url)

# %% [markdown]
# ## The application
#
# The application uses OpenAI's client. All it knows of demur is the address. `refusal` is a field of OpenAI's
# protocol: where it is not empty, there is no answer.

# %%
gate = OpenAI(base_url=f"{service.url}/v1", api_key="none is needed here")


def ask(question: str):
    return gate.chat.completions.create(model="sums", messages=[{"role": "user", "content": question}])


for question in ["What is 34 + 75?", "What is 834 + 975?"]:
    reply = ask(question)
    print(question, reply.choices[0].message.content, "| refusal:", reply.choices[0].message.refusal)
    print("   ", reply.demur["action"], "-", reply.demur["reason"])

# %% [markdown]
# Beside the answer, `reply.demur` says what was decided, with which confidence, and why.
#
# ## Two hundred users

# %%
asked = [(ask(question), right) for question, right in (draw_sum() for _ in range(200))]
held = [reply for reply, _ in asked if reply.choices[0].message.refusal]
wrong = sum(reply.choices[0].message.content != right for reply, right in asked if reply not in held)
print(f"{len(asked) - len(held)} answers passed, of which {wrong} are wrong; {len(held)} were held")

# %% [markdown]
# ## A colleague looks
#
# Held answers wait at the address below, where people see question and answer and press a key. Here a loop plays the
# colleague, over the API behind the pages. It says whether the model's text is `right` or `wrong`.

# %%
print(f"{service.url}/review/")
truth = {reply.demur["id"]: right for reply, right in asked}
with httpx.Client(base_url=f"{service.url}/review/v1", headers={"X-Demur-Reviewer": "ada"}) as desk:
    while (claim := desk.post("/cases/next", json={})).status_code == 200:
        case = claim.json()
        text = service.client.prediction(case["case_id"]).prediction
        verdict = "right" if text == truth.get(case["case_id"]) else "wrong"
        desk.post(f"/cases/{case['case_id']}/answer", json={"token": case["token"], "label": verdict})

# %% [markdown]
# ## The application gets the verdict
#
# `wait` returns when a person has answered. If the held text was right, the user gets it now. If not, the application
# does something else: here it would say that it cannot help.

# %%
later = [service.client.wait(reply.demur["id"]) for reply in held]
counts = Counter(view.outcome.label for view in later)
print(f"of {len(later)} answers that were held, {counts['right']} were right and {counts['wrong']} were wrong")
plt.bar(["passed", "held, and right", "held, and wrong"], [len(asked) - len(held), counts["right"], counts["wrong"]])
plt.ylabel("answers")
plt.show()

# %% [markdown]
# **What you see.** Compare the share of wrong answers among those that passed with the share among those that were
# held. The gate does not know which answers are wrong: it collects the doubtful ones, and with them some that are
# right. That is what caution costs, and a lower `max_risk` costs more. The colleague's verdicts are kept. The next
# fit can use them (`demur fit sums --since 30d`), and an audit says whether the promise was kept (tutorial 5).

# %%
service.stop()

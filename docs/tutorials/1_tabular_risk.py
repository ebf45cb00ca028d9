# %% [markdown]
# # A risk model that may say "I don't know"
#
# A clinic measures a tumour and asks a model: is it benign or malignant? A wrong answer is expensive. A second look
# by a doctor costs something too, but much less. This tutorial wraps a classifier of scikit-learn, so that it answers
# where it is sure enough, and holds the rest for a person.
#
# You need `pip install demur`. The tutorial takes half a minute.

# %%
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import demur

data = load_breast_cancer(as_frame=True)
X = data.data.filter(like="mean")  # ten measurements of each tumour
y = data.target_names[data.target]  # "malignant" or "benign"
X, X_new, y, y_new = train_test_split(X, y, test_size=0.3, stratify=y, random_state=1)
print(f"{len(X)} tumours to learn from, {len(X_new)} that come later")

# %% [markdown]
# ## First try: ask for a promise
#
# `selective_risk` promises: at most 5% of the answers are wrong, except with probability 5%. Such a promise needs
# labelled rows that the model was not trained on. Here they are too few. demur says so, and makes no promise
# that it cannot keep.

# %%
model = make_pipeline(StandardScaler(), LogisticRegression())
try:
    demur.SelectiveClassifier(model, policy={"kind": "selective_risk", "max_risk": 0.05}).fit(X, y)
except ValueError as refused:
    print(refused)

# %% [markdown]
# ## Second try: say what mistakes cost
#
# Without a promise, costs can decide. Let a wrong answer cost as much as 20 second looks. Then it pays to answer
# where the probability of being wrong is below 1/20 = 5%. So this probability itself must be right: `platt` fits it
# on rows that the model was not trained on. `fit` does both: it trains on 40% of the rows, and calibrates on the
# others.

# %%
classifier = demur.SelectiveClassifier(
    model,
    confidence={"score": "softmax_response", "calibrator": "platt"},
    policy={"kind": "cost", "error_cost": 20, "reject_cost": 1},
    calibration_share=0.6,
).fit(X, y)
report = classifier.report()
report

# %% [markdown]
# **What you see.** The report was made on rows that nothing was fitted on.
#
# * *Risk against coverage*: from left to right more rows are answered, the surest first. On the left fewer of the
#   answers are wrong. The point marks the limit that the rule has chosen.
# * *Reliability*: where the model says 90%, is it right in 90% of the rows? Points near the diagonal say yes.
# * `selective_risk` is the share of wrong answers among the answered rows, `coverage` the share of rows that are
#   answered. The intervals are wide, because there are few rows. `prr.confidence` (prediction rejection ratio) says
#   how well the confidence finds the errors: 0 is chance, 1 is perfect.
#
# ## New tumours

# %%
decisions = classifier.decide(X_new)
decisions

# %% [markdown]
# Each row is answered or held, with a reason. `prediction` is what the model says, for held rows too. Use it only
# where the row is answered. Was it worth it? We know the truth about these rows, so we can count.

# %%
wrong = decisions.prediction != y_new
held = ~decisions.answered
print(f"{held.sum()} of {len(wrong)} tumours go to a doctor, with {(wrong & held).sum()} of the {wrong.sum()} errors")
print(f"cost if every prediction is used: {20 * wrong.sum()}")
print(f"cost if some are held:            {20 * (wrong & ~held).sum() + held.sum()}")
print(f"cost if a doctor sees all:        {len(wrong)}")
demur.plots.risk_coverage(~wrong, -decisions.confidence, label="confidence, on new rows")

# %% [markdown]
# ## Take it to a service
#
# What was fitted can be saved as an *artifact*. A demur service with the same model decides by it after a person has
# run the printed command, and not before.

# %%
artifact = classifier.save("var/artifacts", model="tumours", identity="given")
print(artifact.command)
artifact

# %% [markdown]
# `identity="given"` says that the predictions will be made outside of demur and sent to it. The page `docs/given.md`
# shows that service, and tutorial 4 runs one. `docs/library.md` has all settings of `SelectiveClassifier`.

# %% [markdown]
# # Judging a vendor's predictions from a file
#
# A vendor reads digits for us. Nobody here has the model: we get a file of probabilities, and know the truth of some
# rows, because people have looked. Three questions: How good are the probabilities? If we let people check the
# doubtful rows, how many would that be, and how many errors would they catch? And would a promise hold?
#
# You need `pip install 'demur[embedded]'`. It takes a minute.
#
# ## The file
#
# First we play the vendor: a forest that was trained on a few digits writes a Parquet file. It has `probabilities`,
# and `label` in the part that people have looked at.

# %%
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier

import demur

folder = Path(tempfile.mkdtemp())
images, digits = load_digits(return_X_y=True)
order = np.random.default_rng(0).permutation(len(digits))
theirs, ours = order[:200], order[200:]
p = RandomForestClassifier(random_state=0).fit(images[theirs], digits[theirs]).predict_proba(images[ours])
table = pa.table({"probabilities": list(p), "label": digits[ours].astype(str)})
pq.write_table(table[:1000], folder / "looked_at.parquet")
pq.write_table(table[1000:].drop_columns("label"), folder / "new.parquet")

# %% [markdown]
# ## How good are the probabilities?
#
# That takes no service. `ECE` is the mean gap between what the vendor claims and what is true. `PRR` says how well
# the claims find the errors: 0 is chance, 1 is perfect.

# %%
looked_at = pq.read_table(folder / "looked_at.parquet")
p, label = np.array(looked_at["probabilities"].to_pylist()), np.array(looked_at["label"].to_pylist())
claimed, correct = p.max(axis=1), p.argmax(axis=1).astype(str) == label
print(f"right: {correct.mean():.1%}, claimed on average: {claimed.mean():.1%}")
print(f"ECE {demur.metrics.ece(claimed, correct):.3f}, PRR {demur.metrics.prr(correct, -claimed):.2f}")
demur.plots.reliability(claimed, correct)

# %% [markdown]
# **What you see.** Points above the diagonal: the vendor is right more often than it claims. So a rule like "trust
# what is above 90%" would throw away good answers. demur calibrates: it learns from the rows with a truth what a
# claim is worth.
#
# ## Watch first, hold nothing
#
# `host: {kind: given}` is a model that runs elsewhere: each request brings its probabilities. `policy: {kind:
# observe}` answers everything, and writes down what a rule *would* have done. So nobody's work changes while we look.
# Here the rule promises at most 5% wrong answers.

# %%
vendor = {
    "task": {"kind": "multiclass", "labels": list("0123456789")},
    "host": {"kind": "given", "gives": ["probabilities"]},
    "scores": ["softmax_response"],
    "confidence": {"score": "softmax_response"},
    "policy": {"kind": "observe", "rule": {"kind": "selective_risk", "max_risk": 0.05}},
    "calibration": {"data": "looked_at.parquet"},
}
service = demur.start_service({"models": {"vendor": vendor}}, folder=folder)

# %% [markdown]
# Now the new rows come. One command asks about every row of the file.

# %%
service.run(
    "predict", "new.parquet", "--model", "vendor", "--output-column", "probabilities", "--out", "judged.parquet"
)
judged = pq.read_table(folder / "judged.parquet").to_pylist()
print({action: sum(row["action"] == action for row in judged) for action in ("answer", "review", "abstain")})
print(judged[0]["reason"])

# %% [markdown]
# All are answered, as they were before demur came. The reason says what the rule would have done.
#
# ## What would the rule have kept?
#
# Later the truth of the new rows becomes known, and we tell it.

# %%
truth = digits[ours][1000:].astype(str)
service.client.add_outcomes({"id": row["id"], "label": right} for row, right in zip(judged, truth, strict=True))
print(service.run("artifacts", "shadow", "vendor", "--report").partition("decisions")[0])

# %% [markdown]
# **What you see.** A is what was told: everything. B is what the rule would have told. `coverage` is the share that
# would have been answered, and `selective_risk` the share of wrong answers among these. What A answers and B does not
# is what people would have looked at. (The report goes on with each row that differs.)
#
# The picture of it, with the calibrated confidences:

# %%
confidence, right = (
    np.array([row["confidence"] for row in judged]),
    np.array([row["prediction"] for row in judged]) == truth,
)
print(
    f"ECE {demur.metrics.ece(confidence, right):.3f}, PRR {demur.metrics.prr(right, -confidence):.2f} after calibration"
)
demur.plots.risk_coverage(right, -confidence, max_risk=0.05, label="confidence, on new rows")

# %% [markdown]
# If you like what you see, replace `observe` by its `rule`, and fit again (`demur fit vendor --data looked_at.parquet
# --promote`). From then on doubtful rows are held for people. `docs/given.md` says what else a request may bring.

# %%
service.stop()

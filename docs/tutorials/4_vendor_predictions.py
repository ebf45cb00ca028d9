# %% [markdown]
# # Judging a vendor's predictions from a file
#
# A vendor reads handwritten digits for us. We do not have the model: we get a file of probabilities, and know the
# truth of some rows, because people have looked at them. Three questions: How good are the probabilities? If we let
# people check the doubtful rows, how many would that be, and how many errors would they catch? And would a promise be
# kept?
#
# You need `pip install 'demur[embedded]'`. The tutorial takes a minute.
#
# ## The file
#
# First we play the vendor: a forest that was trained on a few digits writes a Parquet file. The file has a column
# `probabilities`, and a column `label` in the part that people have looked at.

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
# This needs no service. `ECE` (expected calibration error) is the mean gap between what the vendor claims and what is
# true. `PRR` (prediction rejection ratio) says how well the claims find the errors: 0 is chance, 1 is perfect.

# %%
looked_at = pq.read_table(folder / "looked_at.parquet")
p, label = np.array(looked_at["probabilities"].to_pylist()), np.array(looked_at["label"].to_pylist())
claimed, correct = p.max(axis=1), p.argmax(axis=1).astype(str) == label
print(f"right: {correct.mean():.1%}, claimed on average: {claimed.mean():.1%}")
print(f"ECE {demur.metrics.ece(claimed, correct):.3f}, PRR {demur.metrics.prr(correct, -claimed):.2f}")
demur.plots.reliability(claimed, correct)

# %% [markdown]
# **What you see.** Points above the diagonal: the vendor is right more often than it claims. So a rule like "trust
# what is above 90%" would throw away good answers. demur calibrates: it learns from the labelled rows how often each
# claim is right.
#
# ## Watch first, hold nothing
#
# `host: {kind: given}` is a model that runs elsewhere: each request brings its probabilities. `policy: {kind:
# observe}` answers everything, and writes down what a rule *would* have done. So nobody's work changes while we
# watch. Here the rule promises at most 5% wrong answers.

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
# All are answered, as they would be without demur. The reason says what the rule would have done.
#
# ## What would the rule have held?
#
# Later the truth of the new rows becomes known, and we send it to demur.

# %%
truth = digits[ours][1000:].astype(str)
service.client.add_outcomes({"id": row["id"], "label": right} for row, right in zip(judged, truth, strict=True))
print(service.run("artifacts", "shadow", "vendor", "--report").partition("decisions")[0])

# %% [markdown]
# **What you see.** A is what was decided: everything is answered. B is what the rule would have decided. `coverage`
# is the share of rows that is answered, and `selective_risk` the share of wrong answers among these. People would
# have looked at the rows that A answers and B does not. (The rest of the report, which is cut off here, lists some of
# them.)
#
# The next picture shows the risk at every limit, with the calibrated confidences:

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
# If you are content with the result, replace `observe` by its `rule`, and fit again (`demur fit vendor --data
# looked_at.parquet --promote`). From then on doubtful rows are held for people. `docs/given.md` says what else a
# request may bring.

# %%
service.stop()

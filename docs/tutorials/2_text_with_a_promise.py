# %% [markdown]
# # A text classifier with a promise
#
# Messages come in, and each one belongs to a product. A classifier sorts them. We want to tell the people who receive
# them: *of the messages that the machine sorts, at most 10% are sorted wrongly.* People sort the rest.
#
# Real messages are private, so this tutorial takes texts that are on your machine already: the first paragraph of
# each docstring in four Python packages. The product is the package that a paragraph comes from. Many paragraphs
# could come from two of the packages, so no classifier can be right about all of them.
#
# You need `pip install demur`. The tutorial takes a minute.

# %%
import ast
from importlib.util import find_spec
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.model_selection import train_test_split
from sklearn.naive_bayes import MultinomialNB
from sklearn.pipeline import make_pipeline

import demur

products: dict[str, set[str]] = {}  # of each text
for product in ["matplotlib", "numpy", "scipy", "sklearn"]:
    for file in Path(find_spec(product).origin).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_bytes())) if "tests" not in file.parts else ():
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                text = " ".join((ast.get_docstring(node) or "").split("\n\n")[0].split())
                products.setdefault(text, set()).add(product)

texts = np.array(sorted(text for text, of in products.items() if len(of) == 1 and len(text.split()) > 4))
labels = np.array([min(products[text]) for text in texts])
taught, rest, y_taught, y_rest = train_test_split(texts, labels, test_size=0.6, random_state=0)
seen, new, y_seen, y_new = train_test_split(rest, y_rest, test_size=0.4, random_state=0)
print(f"{len(taught)} texts to train on, {len(seen)} to calibrate on, {len(new)} that come later")
for text in new[:5]:
    print("*", text[:110])

# %% [markdown]
# Each text is in the data once, so none of the later texts was seen before.
#
# ## The classifier, and what it is worth without demur

# %%
model = make_pipeline(TfidfVectorizer(sublinear_tf=True), MultinomialNB(alpha=0.1)).fit(taught, y_taught)
print(f"of the new texts, {1 - model.score(new, y_new):.0%} are sorted wrongly")

# %% [markdown]
# ## The promise
#
# `selective_risk` ranks the texts, the surest first, and looks for a limit up to which it answers. It is chosen so that
# at most 10% of the answers are wrong, *except with probability 5%*: by chance, the calibration rows may be easier
# than later ones. The method allows for such luck, and the promise is a theorem (Learn then Test, `docs/methods.md`).
# It needs one assumption: later texts are drawn like the calibration rows.

# %%
policy = {"kind": "selective_risk", "max_risk": 0.10, "delta": 0.05}
classifier = demur.SelectiveClassifier(model, policy=policy).fit_calibration(seen, y_seen)
print(*classifier.report().statements, sep="\n")

decisions = classifier.decide(new)
wrong = decisions.prediction != y_new
risk = wrong[decisions.answered].mean()
print(f"\nanswered: {decisions.coverage:.0%} of the new texts, and {risk:.1%} of these answers are wrong")
demur.plots.risk_coverage(~wrong, -decisions.confidence, max_risk=0.10, label="confidence, on new texts")

# %% [markdown]
# **What you see.** From left to right more and more texts are answered, the surest first. The curve shows how many of
# the answers are wrong, and the band shows how uncertain this is. The horizontal line is the promise. The share that
# was answered is printed above. It is smaller than the share where curve and line meet: this difference is the price
# of the promise.
#
# Which texts are held? These are the five with the lowest confidence. They could come from any of the packages:

# %%
for row in np.argsort(decisions.confidence)[:5]:
    print(f"{decisions.prediction[row]}? confidence {decisions.confidence[row]:.0%}: {new[row][:90]}")

# %% [markdown]
# ## Is it kept?
#
# One result proves little, so we repeat it 100 times. Each time we draw new calibration rows from the texts that the
# model was not trained on, and count the wrong answers among the others. If the promise is true, we expect more than
# 10% wrong answers in at most 5 of 100 draws.

# %%
probabilities, rng = model.predict_proba(rest), np.random.default_rng(0)
risks = []
for _ in range(100):
    order = rng.permutation(len(rest))
    fitted_on, later = order[: len(seen)], order[len(seen) :]
    judge = demur.SelectiveClassifier(policy=policy, anyway=True).fit(probabilities[fitted_on], y_rest[fitted_on])
    made = judge.decide(probabilities[later])
    risks.append((made.answered & (made.prediction != y_rest[later])).sum() / max(made.answered.sum(), 1))
print(f"more than 10% of the answers were wrong in {sum(risk > 0.10 for risk in risks)} of 100 draws")
plt.hist(risks, bins=20)
plt.axvline(0.10, color="black", linestyle=":")
plt.xlabel("share of wrong answers among new texts (dotted: the promise)")
plt.ylabel("draws")
plt.show()

# %% [markdown]
# In most draws the share is well below the line, because the promise must also hold for unlucky draws. Here the rows
# were probabilities, and no classifier was given: `SelectiveClassifier` can judge predictions that were made
# elsewhere.
#
# What the promise does not cover: texts of another kind. If messages about a fifth product come, the assumption is
# broken. To notice that, people must look at some of the answers. Tutorial 5 shows how a service does that.

"""Trees of XGBoost and LightGBM, hosted from their own files."""

import json
from pathlib import Path

import lightgbm
import numpy as np
import pandas as pd
import pytest
import xgboost

from demur.serve.contract.inputs import InvalidRequest
from demur.serve.hosts.identity import identity_of
from demur.serve.hosts.kind import BadModel
from demur.serve.hosts.kinds import check_here, check_model
from demur.serve.hosts.tabular import kind
from tests.serve.table_models import LABELS, TASK, ask, configured, frame, records, truth

HOLES = {"kind": "table", "missing": True}
BINARY = {"kind": "binary", "labels": ["fine", "bad"]}
pytestmark = pytest.mark.slow  # some files are tried in a process of their own

LIBRARIES = ["xgboost", "lightgbm"]


def table(rows=300, seed=0):
    """Numbers with holes, a category, true and false."""
    return frame(rows, seed).drop(columns="note").assign(job=lambda one: one.job.astype("category"))


def codes_of(labels):
    return np.array([LABELS.index(label) for label in labels])


def classifier(library, **more):
    if library == "xgboost":
        return xgboost.XGBClassifier(n_estimators=5, max_depth=3, enable_categorical=True, n_jobs=1, **more)
    return lightgbm.LGBMClassifier(n_estimators=5, num_leaves=7, min_child_samples=5, n_jobs=1, verbose=-1, **more)


@pytest.fixture
def loaded_at_once(monkeypatch):
    """A file of our own, which is whole, is not tried in a process of its own before it is loaded."""
    monkeypatch.setattr(kind, "try_apart", lambda _model, _words: None)


@pytest.fixture
def saved(tmp_path, loaded_at_once):
    """Save a model in its own format, and return its settings under `host`."""

    def save(model, name=None, **host):
        library = "xgboost" if isinstance(model, xgboost.XGBModel | xgboost.Booster) else "lightgbm"
        path = tmp_path / (name or {"xgboost": "model.ubj", "lightgbm": "model.txt"}[library])
        getattr(model, "booster_", model).save_model(path)
        return {"kind": library, "file": str(path), **host}

    return save


@pytest.fixture(scope="module", params=LIBRARIES)
def three(request):
    """A model of three classes."""
    rows = table()
    return classifier(request.param).fit(rows, codes_of(truth(frame())))


def test_it_says_exactly_what_the_library_says(saved, three):
    rows = table(60, seed=3)
    loaded, output = ask(configured(**saved(three, input=HOLES)), records(rows))
    assert (output.probabilities == three.predict_proba(rows)).all()
    columns = loaded.spec.columns
    assert list(columns) == ["age", "job", "smoker"]
    assert columns["job"].kind == "category"
    assert columns["job"].values == ("clerk", "nurse", "other")


@pytest.mark.parametrize("library", LIBRARIES)
def test_two_classes_of_which_the_file_has_one_column(saved, library):
    rows, y = table(), codes_of(truth(frame())) > 0
    model = classifier(library).fit(rows, y.astype(int))
    for name in ("a.json", "b.ubj") if library == "xgboost" else ("a.txt",):
        _, output = ask(configured(task=BINARY, **saved(model, name, input=HOLES)), records(rows[:40]))
        assert (output.probabilities == model.predict_proba(rows[:40])).all()


def test_rows_come_as_objects_or_arrays_in_the_configured_order(saved, three):
    rows = table(20, seed=4)
    columns = {"smoker": "boolean", "job": "category", "age": {"missing": True}}
    model = configured(**saved(three, input={"kind": "table", "columns": columns}))
    arrays = [[row["smoker"], row["job"], row["age"]] for row in records(rows)]
    right = three.predict_proba(rows)
    assert (ask(model, arrays)[1].probabilities == right).all()
    assert (ask(model, records(rows))[1].probabilities == right).all()


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"age": 40, "job": "pilot", "smoker": True}, "input.job: 'pilot' is not one of: clerk, nurse, other"),
        ({"age": "40", "job": "nurse", "smoker": True}, "input.age: a number is wanted here, not a text"),
        ({"age": 40, "job": "nurse"}, "input.smoker: a value is missing"),
        ({"age": 40, "job": 1, "smoker": True}, "input.job: a text is wanted here"),
        ([40, "nurse"], "the array has 2 values, and this model takes 3"),
    ],
)
def test_a_row_is_checked_against_the_columns_of_the_file(saved, three, row, message):
    with pytest.raises(InvalidRequest) as refused:
        ask(configured(**saved(three)), [row])
    assert message in str(refused.value)


def test_missing_values_where_the_trees_have_learnt_them_or_somebody_says_so(saved, three):
    library = saved(three)["kind"]
    loaded, _ = ask(configured(**saved(three)), [[40, "nurse", True]])
    told = {name: column.missing for name, column in loaded.spec.columns.items()}
    if library == "lightgbm":  # its file says which splits know NaN; in the others NaN would count as 0
        assert told["age"]
        assert not told["job"]
    else:
        assert not any(told.values())
    model = configured(**saved(three, input={"kind": "table", "missing": True}))
    rows = pd.DataFrame({"age": [np.nan], "job": pd.Categorical([None], ["clerk", "nurse", "other"]), "smoker": [True]})
    assert (ask(model, [[None, None, True]])[1].probabilities == three.predict_proba(rows)).all()


def test_an_unknown_category_counts_as_missing_where_that_is_configured(saved, three):
    columns = {"age": {"missing": True}, "job": {"kind": "category", "missing": True, "unknown": "missing"}}
    columns["job"]["values"] = ["clerk", "nurse"]
    model = configured(**saved(three, input={"kind": "table", "columns": {**columns, "smoker": "boolean"}}))
    rows = pd.DataFrame({"age": [40.0], "job": pd.Categorical([None], ["clerk", "nurse", "other"]), "smoker": [True]})
    assert (ask(model, [[40, "pilot", True]])[1].probabilities == three.predict_proba(rows)).all()


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"job": ["pilot"]}, r"columns\.job\.values: the model does not know 'pilot'; it knows clerk"),
        ({"job": "number"}, r"columns\.job: the model knows this column as a category, of clerk"),
        ({"age": "text"}, r"columns\.age: the model takes numbers, and this column is a text"),
        (
            {"job": {"kind": "category", "values": ["clerk"], "unknown": "keep"}},
            r"columns\.job: the model has no code for",
        ),
        ({"smokes": "boolean"}, r"columns\.smokes: the model has no column 'smokes'"),
    ],
)
def test_columns_that_do_not_fit_are_refused(saved, three, changed, message):
    columns = {"age": "number", "job": "category", "smoker": "boolean", **changed}
    with pytest.raises(BadModel, match=message):
        check_here(configured(**saved(three, input={"kind": "table", "columns": columns})))


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_model_of_plain_arrays_numbers_its_columns(saved, library):
    X = np.random.default_rng(0).normal(size=(200, 3))
    y = np.digitize(X[:, 0], [-0.4, 0.4])
    model = classifier(library).fit(X, y)
    loaded, output = ask(configured(**saved(model)), X[:9].tolist())
    assert (
        list(loaded.spec.columns)
        == {"xgboost": ["f0", "f1", "f2"], "lightgbm": [f"Column_{n}" for n in range(3)]}[library]
    )
    assert (output.probabilities == model.predict_proba(X[:9])).all()
    named = {"kind": "table", "columns": dict.fromkeys("abc", "number")}
    assert (ask(configured(**saved(model, input=named)), X[:9].tolist())[1].probabilities == output.probabilities).all()


def test_codes_whose_categories_the_file_does_not_have(saved):
    X = np.column_stack([np.random.default_rng(0).normal(size=200), np.arange(200) % 3])
    y = (np.arange(200) % 3 == 1).astype(int)
    data = xgboost.DMatrix(X, y, feature_types=["q", "c"], enable_categorical=True)
    model = xgboost.train({"objective": "binary:logistic"}, data, 3)
    columns = {"age": "number", "job": ["clerk", "nurse", "other"]}
    _, output = ask(
        configured(task=BINARY, **saved(model, input={"kind": "table", "columns": columns})), [[0.5, "nurse"]]
    )
    assert output.probabilities[0, 1] > 0.5
    assert (
        ask(configured(task=BINARY, **saved(model)), [[0.5, 1]])[1].probabilities.tolist()
        == output.probabilities.tolist()
    )


def test_names_with_blanks_are_those_of_the_table(saved):
    rows = table().rename(columns={"age": "age of person"})
    model = classifier("lightgbm").fit(rows, codes_of(truth(frame())))
    columns = {"age of person": {"missing": True}, "job": "category", "smoker": "boolean"}
    host = saved(model, input={"kind": "table", "columns": columns})
    right = model.predict_proba(rows[:9])
    assert (ask(configured(**host), records(rows[:9]))[1].probabilities == right).all()


def test_the_best_round_is_used_where_training_stopped_early(saved):
    rows, y = table(), codes_of(truth(frame()))
    model = xgboost.XGBClassifier(
        n_estimators=60, max_depth=6, enable_categorical=True, early_stopping_rounds=3, n_jobs=1
    )
    model.fit(rows[:200], y[:200], eval_set=[(rows[200:], y[200:])], verbose=False)
    assert model.best_iteration + 1 < model.get_booster().num_boosted_rounds()
    assert (
        ask(configured(**saved(model, input=HOLES)), records(rows[:30]))[1].probabilities
        == model.predict_proba(rows[:30])
    ).all()


def test_several_labels_and_a_softmax(saved):
    X = np.random.default_rng(0).normal(size=(200, 3))
    several = xgboost.XGBClassifier(n_estimators=3, n_jobs=1).fit(X, (X > 0).astype(int))
    task = {"kind": "multilabel", "labels": ["a", "b", "c"]}
    assert (
        ask(configured(task=task, **saved(several)), X[:9].tolist())[1].probabilities == several.predict_proba(X[:9])
    ).all()
    with pytest.raises(BadModel, match=r"task\.kind: .* several labels of each row, and the task is multiclass"):
        check_here(configured(**saved(several)))
    y = np.digitize(X[:, 0], [-0.4, 0.4])
    data = xgboost.DMatrix(X, y)
    told = {
        way: xgboost.train({"objective": f"multi:{way}", "num_class": 3}, data, 3) for way in ("softmax", "softprob")
    }
    output = ask(configured(**saved(told["softmax"])), X[:9].tolist())[1]
    assert (output.probabilities == told["softprob"].predict(data)[:9]).all()


@pytest.mark.parametrize(
    ("library", "objective"),
    [
        ("xgboost", "reg:squarederror"),
        ("xgboost", "binary:logitraw"),
        ("lightgbm", "regression"),
        ("lightgbm", "cross_entropy"),
    ],
)
def test_an_objective_without_probabilities_is_refused(saved, library, objective):
    X = np.random.default_rng(0).normal(size=(200, 3))
    y = (X[:, 0] > 0).astype(int)
    settings = {"objective": objective, "verbosity": -1 if library == "lightgbm" else 0}
    data = xgboost.DMatrix(X, y) if library == "xgboost" else lightgbm.Dataset(X, y)
    model = (xgboost if library == "xgboost" else lightgbm).train(settings, data, 3)
    with pytest.raises(
        BadModel, match=f"host.file: .* was trained with the objective {objective}, which gives no prob"
    ):
        check_here(configured(task=BINARY, **saved(model)))


def test_labels_that_do_not_fit_are_refused(saved, three):
    host = saved(three)
    with pytest.raises(BadModel, match=r"task\.labels: the model tells 3 classes, and 2 are listed"):
        check_here(configured(task=BINARY, **host))
    with pytest.raises(BadModel, match=r"task\.rename: the file knows its classes by their numbers only"):
        check_here(configured(task={**TASK, "rename": {"0": "fine"}}, **host))
    with pytest.raises(BadModel, match=r"task\.kind: .* one class of each row, and the task is multilabel"):
        check_here(configured(task={"kind": "multilabel", "labels": list(LABELS)}, **host))
    with pytest.raises(ValueError, match=r"mahalanobis reads embedding, and a model of this `host\.kind` gives none"):
        check_here(configured(scores=["softmax_response", "mahalanobis"], **host))


@pytest.mark.parametrize("share", [0.0, 0.6, *(pytest.param(one, marks=pytest.mark.long) for one in (0.02, 0.3, 0.95))])
def test_a_file_that_is_cut_off_is_told_as_one_and_kills_nothing(saved, three, share):
    host = saved(three)
    path = Path(host["file"])
    whole = path.read_bytes()
    path.write_bytes(whole[: int(share * len(whole))])
    with pytest.raises(BadModel, match=r"host\.file: .* (cannot read|ended the process) .*; save the model again with"):
        check_model(configured(**host))


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("content", [b"hello", bytes(1000)])
def test_the_file_of_something_else_is_told_as_one(tmp_path, library, content):
    (tmp_path / "model").write_bytes(content)
    host = {"kind": library, "file": str(tmp_path / "model")}
    with pytest.raises(BadModel, match=rf"host\.file: {library} cannot read .* \(.+\); save the model again"):
        check_model(configured(**host))
    with pytest.raises(BadModel, match=rf"host\.file: {library} cannot read .* \(.+\); save the model again"):
        ask(configured(**host), [[1.0]])


@pytest.mark.long
@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("content", [b"", b"{}", json.dumps({"learner": {}}).encode()])
def test_more_files_of_something_else(tmp_path, library, content):
    test_the_file_of_something_else_is_told_as_one(tmp_path, library, content)


def test_an_artifact_is_bound_to_the_file(saved, three):
    host = saved(three)
    first = identity_of(configured(**host)).fingerprint
    assert first == identity_of(configured(cpus=2, **host)).fingerprint
    with open(host["file"], "ab") as longer:
        longer.write(b"\n")
    assert identity_of(configured(**host)).fingerprint != first

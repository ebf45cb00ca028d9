"""Fitted models of scikit-learn, hosted: they say what the library says, and wrong files are refused in words."""

import os
import pickle
import zipfile
from pathlib import Path

import joblib
import numpy as np
import pandas as pd
import pytest
import skops.io
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import make_column_transformer
from sklearn.datasets import make_multilabel_classification
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.multiclass import OneVsRestClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, OrdinalEncoder, StandardScaler
from sklearn.svm import LinearSVC

from demur.serve.contract.inputs import InvalidRequest
from demur.serve.hosts.identity import identity_if_here, identity_of
from demur.serve.hosts.kind import BadModel, BadModelOutput
from demur.serve.hosts.kinds import check_here
from tests.serve.table_models import COLUMNS, LABELS, TASK, ask, configured, frame, pipeline, records, truth

TREES = ["sklearn.tree._tree.Tree"]


@pytest.fixture
def saved(tmp_path):
    """Save a model with skops, and return its settings under `host`."""

    def save(model, name="model.skops", **host):
        skops.io.dump(model, tmp_path / name)
        return {"kind": "sklearn", "file": str(tmp_path / name), **host}

    return save


def by_label(model, rows):
    """The library's own answer, in the order of `LABELS`."""
    return model.predict_proba(rows)[:, [list(model.classes_).index(label) for label in LABELS]]


def numbers(rows=200, columns=4):
    X = np.random.default_rng(1).normal(size=(rows, columns))
    return X, np.array(LABELS)[np.digitize(X[:, 0], [-0.4, 0.4])]


def test_a_pipeline_says_exactly_what_the_library_says(saved):
    table = frame(50, seed=1)
    model = configured(**saved(pipeline(), input={"kind": "table", "columns": COLUMNS}))
    loaded, output = ask(model, records(table))
    assert loaded.spec.kind == "table"
    assert (output.probabilities == by_label(pipeline(), table)).all()
    assert output.usable().all()


def test_labels_may_stand_in_another_order_than_the_classes(saved):
    task = {"kind": "multiclass", "labels": ["lost", "fine", "late"]}
    table = frame(5)
    _, output = ask(
        configured(task=task, **saved(pipeline(), input={"kind": "table", "columns": COLUMNS})), records(table)
    )
    assert (output.probabilities == by_label(pipeline(), table)[:, [2, 0, 1]]).all()


def test_rows_are_objects_in_any_order_or_arrays_in_the_configured_one(saved):
    table = frame(20, seed=2)
    turned = dict(reversed(COLUMNS.items()))
    model = configured(**saved(pipeline(), input={"kind": "table", "columns": turned}))
    mixed = [dict(reversed(row.items())) for row in records(table)]
    arrays = [[row[name] for name in turned] for row in mixed]
    right = by_label(pipeline(), table)
    assert (ask(model, mixed)[1].probabilities == right).all()
    assert (ask(model, arrays)[1].probabilities == right).all()


def test_the_columns_are_read_from_the_pipeline_where_none_is_configured(saved):
    loaded, output = ask(configured(**saved(pipeline())), [{"age": None, "job": "nurse", "smoker": 1, "note": "hello"}])
    columns = loaded.spec.columns
    assert list(columns) == ["age", "job", "smoker", "note"]
    assert [columns[name].kind for name in columns] == ["numeric", "category", "numeric", "text"]
    assert columns["age"].missing
    assert not columns["job"].missing
    assert (columns["job"].values, columns["job"].unknown) == (("clerk", "nurse", "other"), "refuse")
    assert output.usable().all()


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"job": "nurse", "smoker": 1, "note": "x"}, None),  # the age may be missing
        ({"age": 1, "smoker": 1, "note": "x"}, "input.job: a value is missing, and this model needs one"),
        ({"age": 1, "job": "nurze", "smoker": 1, "note": "x"}, "input.job: 'nurze' is not one of: clerk, nurse, other"),
        ({"age": "old", "job": "nurse", "smoker": 1, "note": "x"}, "input.age: a number is wanted here, not a text"),
        ({"age": float("nan"), "job": "nurse", "smoker": 1, "note": "x"}, None),
        ({"age": float("inf"), "job": "nurse", "smoker": 1, "note": "x"}, "input.age: a finite number is wanted here"),
        ({"age": 1, "job": "nurse", "smoker": 1, "note": 7}, "input.note: a text is wanted here, not a number"),
        ({"age": 1, "job": "nurse", "smoker": 1, "note": "x", "more": 1}, "input.more: 'more' is not one of"),
        ([1, "nurse", 1], "the array has 3 values, and this model takes 4, in this order: age, job, smoker, note"),
    ],
)  # fmt: skip
def test_a_row_is_checked_against_the_columns_of_the_file(saved, row, message):
    model = configured(**saved(pipeline()))
    if message is None:
        assert ask(model, [row])[1].usable().all()
        return
    with pytest.raises(InvalidRequest) as refused:
        ask(model, [row])
    assert message in str(refused.value)


@pytest.mark.slow
def test_an_unknown_category_may_count_as_missing_or_reach_the_model(saved):
    table = frame()[["age", "job"]].fillna(40)
    parts = make_column_transformer((OneHotEncoder(handle_unknown="ignore"), ["job"]), remainder="passthrough")
    fitted = make_pipeline(parts, LogisticRegression(max_iter=1000)).fit(table, truth(frame()))
    own = configured(**saved(fitted))
    loaded, output = ask(own, [{"age": 40, "job": "pilot"}])
    assert loaded.spec.columns["job"].unknown == "keep"  # as the encoder ignores it
    assert (output.probabilities == by_label(fitted, pd.DataFrame({"age": [40.0], "job": ["pilot"]}))).all()
    columns = {"age": "number", "job": {"kind": "category", "values": ["clerk"], "missing": True, "unknown": "missing"}}
    missing = configured(**saved(fitted, input={"kind": "table", "columns": columns}))
    assert (ask(missing, [{"age": 40, "job": "pilot"}])[1].probabilities == output.probabilities).all()


def test_a_model_of_plain_arrays_numbers_its_columns(saved):
    X, y = numbers()
    fitted = LogisticRegression().fit(X, y)
    loaded, output = ask(configured(**saved(fitted)), X[:7].tolist())
    assert list(loaded.spec.columns) == ["x0", "x1", "x2", "x3"]
    assert (output.probabilities == by_label(fitted, X[:7])).all()
    with pytest.raises(InvalidRequest, match=r"input\.x1: a value is missing"):  # a regression takes no NaN
        ask(configured(**saved(fitted)), [[1, None, 1, 1]])
    named = {"kind": "table", "columns": dict.fromkeys("abcd", "number")}
    assert (
        ask(configured(**saved(fitted, input=named)), X[:7].tolist())[1].probabilities == output.probabilities
    ).all()
    with pytest.raises(BadModel, match=r"host\.input\.columns: the model takes 4 columns, and 2 are named here"):
        check_here(configured(**saved(fitted, input={"kind": "table", "columns": dict.fromkeys("ab", "number")})))


def test_a_model_of_arrays_may_have_texts_in_it(saved):
    cells = np.array([["a", 1.0], ["b", 2.0], ["c", 3.0]] * 20, dtype=object)
    fitted = make_pipeline(OneHotEncoder(), LogisticRegression()).fit(cells, [*LABELS] * 20)
    columns = {"letter": ["a", "b", "c"], "number": "number"}
    _, output = ask(configured(**saved(fitted, input={"kind": "table", "columns": columns})), [["b", 2], ["c", 1]])
    assert (output.probabilities == by_label(fitted, np.array([["b", 2.0], ["c", 1.0]], dtype=object))).all()


@pytest.mark.slow
def test_missing_values_are_taken_where_the_parts_of_a_pipeline_take_them(saved):
    X, y = numbers()
    table = pd.DataFrame(X, columns=list("abcd"))
    holes = table.mask(np.random.default_rng(0).random(X.shape) < 0.1)
    trees = HistGradientBoostingClassifier(max_iter=5)
    for fitted, taken in (
        (trees.fit(holes, y), True),
        (make_pipeline(StandardScaler(), LogisticRegression()).fit(table, y), False),  # the first lets NaN through
        (make_pipeline(StandardScaler(), HistGradientBoostingClassifier(max_iter=5)).fit(holes, y), True),
    ):
        host = saved(fitted, trust=True)
        loaded, _ = ask(configured(**host), [[1, 2, 3, 4]])
        assert {column.missing for column in loaded.spec.columns.values()} == {taken}
    told, _ = ask(configured(**saved(trees, trust=True, input={"kind": "table", "missing": False})), [[1, 2, 3, 4]])
    assert not any(column.missing for column in told.spec.columns.values())


def test_categories_of_a_data_frame_reach_gradient_boosting(saved):
    table = frame()[["age", "job"]]
    fitted = HistGradientBoostingClassifier(categorical_features="from_dtype", max_iter=5)
    fitted.fit(table.assign(job=table.job.astype("category")), truth(frame()))
    columns = {"age": {"missing": True}, "job": ["clerk", "nurse", "other"]}
    host = saved(fitted, trust=True, input={"kind": "table", "columns": columns})
    _, output = ask(configured(**host), records(table[:40]))
    assert (output.probabilities == by_label(fitted, table.assign(job=table.job.astype("category"))[:40])).all()


def test_a_model_of_texts_takes_texts(saved):
    table = frame()
    fitted = make_pipeline(TfidfVectorizer(), LogisticRegression()).fit(table.note, truth(table))
    for host in (saved(fitted), saved(fitted, input="text")):
        loaded, output = ask(configured(**host), ["called twice", "no"])
        assert loaded.spec.kind == "text"
        assert (output.probabilities == by_label(fitted, ["called twice", "no"])).all()
    with pytest.raises(BadModel, match=r"host\.input: .* takes texts, and no table; write `input: text`"):
        check_here(configured(**saved(fitted, input={"kind": "table", "columns": {"note": "text"}})))
    with pytest.raises(BadModel, match=r"host\.input: .* takes 4 columns, and no texts"):
        check_here(configured(**saved(pipeline(), input="text")))


@pytest.mark.slow
@pytest.mark.parametrize("forest", [False, True])
def test_labels_that_hold_together(saved, forest):
    X, Y = make_multilabel_classification(n_samples=200, n_features=5, n_classes=3, random_state=0)
    task = {"kind": "multilabel", "labels": ["fever", "cough", "rash"]}
    if forest:
        fitted = RandomForestClassifier(n_estimators=5, random_state=0).fit(X, Y)
        right = np.column_stack([one[:, 1] for one in fitted.predict_proba(X[:9])])
    else:
        fitted = OneVsRestClassifier(LogisticRegression()).fit(X, Y)
        right = fitted.predict_proba(X[:9])
    host = saved(fitted, trusted=TREES)
    assert (ask(configured(task=task, **host), X[:9].tolist())[1].probabilities == right).all()
    with pytest.raises(BadModel, match=r"task\.kind: .* several labels of each row, and the task is multiclass"):
        check_here(configured(**host))
    with pytest.raises(BadModel, match=r"task\.labels: the model tells 3 labels of each row, and 2 are listed"):
        check_here(configured(task={"kind": "multilabel", "labels": ["fever", "cough"]}, **host))


def test_one_class_a_row_is_no_multilabel_model(saved):
    with pytest.raises(BadModel, match=r"task\.kind: .* one class of each row, and the task is multilabel"):
        check_here(configured(task={"kind": "multilabel", "labels": list(LABELS)}, **saved(pipeline())))
    X, y = numbers()
    with pytest.warns(match="converge"):
        network = MLPClassifier((3,), max_iter=5).fit(X, y)
    with pytest.raises(BadModel, match=r"task\.kind: "):
        check_here(configured(task={"kind": "multilabel", "labels": list(LABELS)}, **saved(network)))


@pytest.mark.parametrize(
    ("task", "message"),
    [
        ({"kind": "multiclass", "labels": ["fine", "late", "gone"]},
            "task.labels: the model has no class 'gone'; it has fine, late,"
            " lost; write these, or give each class another name: `rename: {\"lost\": gone}`"),
        ({"kind": "binary", "labels": ["fine", "late"]}, "task.labels: the model also has the class 'lost'; list"
            " all of fine, late, lost"),
        ({"kind": "multiclass", "labels": ["fine", "late", "gone"], "rename": {"lots": "gone"}},
            "task.rename.lots: the model has no such class; it has fine, late, lost; did you mean `lost`?"),
    ],
)  # fmt: skip
def test_other_labels_are_refused(saved, task, message):
    with pytest.raises(BadModel) as refused:
        check_here(configured(task=task, **saved(pipeline())))
    assert str(refused.value) == message


def test_classes_that_are_numbers_get_names(saved):
    X, y = numbers()
    fitted = LogisticRegression().fit(X, (y == "lost").astype(int))
    task = {"kind": "binary", "labels": ["here", "lost"], "rename": {"0": "here", "1": "lost"}}
    _, output = ask(configured(task=task, **saved(fitted)), X[:5].tolist())
    assert (output.probabilities == fitted.predict_proba(X[:5])).all()
    plain = {"kind": "binary", "labels": ["0", "1"]}
    assert (ask(configured(task=plain, **saved(fitted)), X[:5].tolist())[1].probabilities == output.probabilities).all()


def test_an_embedding_is_what_comes_before_the_last_step(saved):
    X, y = numbers()
    fitted = make_pipeline(StandardScaler(), LogisticRegression()).fit(X, y)
    model = configured(scores=["softmax_response", "mahalanobis"], **saved(fitted))
    output = ask(model, X[:5].tolist(), "probabilities", "embedding")[1]
    assert (output.embedding == fitted[0].transform(X[:5])).all()
    alone = configured(scores=["softmax_response", "mahalanobis"], **saved(fitted[-1]))
    with pytest.raises(BadModel, match=r"scores: .* needs an embedding, and model\.skops gives none; save a pipeline"):
        check_here(alone)
    table = frame()
    texts = make_pipeline(TfidfVectorizer(), LogisticRegression()).fit(table.note, truth(table))
    sparse = configured(scores=["softmax_response", "mahalanobis"], **saved(texts))
    with pytest.raises(BadModelOutput, match="sparse, and a score needs short, dense ones; add TruncatedSVD"):
        ask(sparse, ["called twice"], "probabilities", "embedding")


@pytest.mark.slow
def test_a_search_and_a_calibrated_model_are_hosted_like_what_they_found(saved):
    table = frame()
    search = GridSearchCV(pipeline(), {"logisticregression__C": [0.1, 1.0]}, cv=2).fit(table, truth(table))
    calibrated = CalibratedClassifierCV(pipeline(), cv=2).fit(table, truth(table))
    for fitted in (search, calibrated):
        host = saved(fitted, trust=True)
        loaded, output = ask(
            configured(**host), [{**row, "smoker": float(row["smoker"])} for row in records(table[:30])]
        )
        assert loaded.spec.columns["note"].kind == "text"
        assert np.allclose(output.probabilities, by_label(fitted, table[:30]), rtol=0, atol=1e-15)


def test_a_file_of_joblib_is_loaded_only_by_one_who_says_so(tmp_path):
    path = tmp_path / "model.joblib"
    joblib.dump(pipeline(), path)
    with pytest.raises(BadModel, match=r"host\.trust: .* runs code when it is loaded, .* write `trust: true`"):
        check_here(configured(kind="sklearn", file=str(path)))
    model = configured(kind="sklearn", file=str(path), trust=True, input={"kind": "table", "columns": COLUMNS})
    table = frame(10)
    assert (ask(model, records(table))[1].probabilities == by_label(pipeline(), table)).all()


class Hostile:
    """Runs a command when it is unpickled."""

    def __init__(self, marker):
        self.marker = marker

    def __reduce__(self):
        return os.mkdir, (str(self.marker),)


def test_no_code_of_a_pickle_runs_without_trust(tmp_path):
    marker = tmp_path / "ran"
    (tmp_path / "model.skops").write_bytes(pickle.dumps(Hostile(marker)))
    with pytest.raises(BadModel, match="trust: true"):
        check_here(configured(kind="sklearn", file=str(tmp_path / "model.skops")))
    assert not marker.exists()


def _shout(X):
    return X


def test_types_of_others_in_a_file_of_skops_are_named_and_refused(saved):
    X, y = numbers()
    fitted = make_pipeline(FunctionTransformer(_shout), LogisticRegression()).fit(X, y)
    unknown = f"{_shout.__module__}._shout"
    with pytest.raises(BadModel) as refused:
        check_here(configured(**saved(fitted)))
    assert f"has types that nobody has vouched for: {unknown}" in str(refused.value)
    assert f"`trusted: [{unknown}]`" in str(refused.value)
    assert (
        ask(configured(**saved(fitted, trusted=[unknown])), X[:3].tolist())[1].probabilities == by_label(fitted, X[:3])
    ).all()


def test_a_hostile_file_of_skops_runs_nothing(saved, tmp_path):
    """The schema of a good file is changed so that it would make a folder."""
    marker = tmp_path / "ran"
    X, y = numbers()
    host = saved(make_pipeline(FunctionTransformer(np.abs), LogisticRegression()).fit(X, y))
    with zipfile.ZipFile(host["file"]) as good:
        files = {name: good.read(name) for name in good.namelist()}
    schema = files["schema.json"].decode()
    assert '"absolute"' in schema
    for module, name in (("os", "mkdir"), ("builtins", "eval"), ("subprocess", "Popen"), ("numpy.f2py", "compile")):
        hostile = schema.replace('"absolute"', f'"{name}"').replace('"numpy"', f'"{module}"')
        with zipfile.ZipFile(host["file"], "w") as bad:
            for inner, content in files.items():
                bad.writestr(inner, hostile if inner == "schema.json" else content)
        with pytest.raises(BadModel, match=r"host\.(trusted|file): "):
            check_here(configured(**host))
    assert not marker.exists()


def test_trees_say_which_line_to_write(saved):
    X, y = numbers()
    forest = RandomForestClassifier(n_estimators=3, n_jobs=-1, random_state=0).fit(X, y)
    with pytest.raises(BadModel, match=r"write `trusted: \[sklearn\.tree\._tree\.Tree\]`"):
        check_here(configured(**saved(forest)))
    _, output = ask(configured(**saved(forest, trusted=TREES, cpus=2)), X[:5].tolist())
    assert np.allclose(output.probabilities, by_label(forest, X[:5]), rtol=0, atol=1e-15)


CUT_SHORT = r"host\.file: .* is no whole file of skops: it may have been cut off on its way"
NOT_READ = r"host\.file: joblib cannot read .* \(\w+.*\); save the model again"


@pytest.mark.parametrize(
    ("broken", "trusted"), [(b"", NOT_READ), (b"PK\x03\x04", CUT_SHORT), (b"not a model", NOT_READ)]
)
def test_a_damaged_file_is_told_as_one(tmp_path, broken, trusted):
    path = tmp_path / "model.skops"
    path.write_bytes(broken)
    with pytest.raises(BadModel, match=r"host\.(file|trust): "):
        check_here(configured(kind="sklearn", file=str(path)))
    with pytest.raises(BadModel, match=trusted):
        check_here(configured(kind="sklearn", file=str(path), trust=True))


@pytest.mark.parametrize("where", [0.2, 0.5, 0.9])
def test_a_file_with_a_hole_is_told_as_one(saved, tmp_path, where):
    host = saved(pipeline())
    content = bytearray((tmp_path / "model.skops").read_bytes())
    with zipfile.ZipFile(host["file"]) as whole:
        inside = whole.getinfo("schema.json")
    at = inside.header_offset + 60 + int(where * inside.compress_size)
    content[at : at + 40] = bytes(40)
    (tmp_path / "model.skops").write_bytes(content)
    with pytest.raises(BadModel, match=r"host\.file: .* is no file that skops can read"):
        check_here(configured(**host))


def test_a_zip_that_skops_did_not_write(tmp_path):
    with zipfile.ZipFile(tmp_path / "model.skops", "w") as other:
        other.writestr("readme.txt", "hello")
    with pytest.raises(BadModel, match=r"host\.file: .* is no file that skops can read"):
        check_here(configured(kind="sklearn", file=str(tmp_path / "model.skops")))


@pytest.mark.slow
@pytest.mark.parametrize("inner", ["schema.json", "1.npy"])
def test_a_zip_that_would_fill_the_memory_is_not_unpacked(saved, tmp_path, inner):
    host = saved(pipeline())
    with (
        zipfile.ZipFile(host["file"], "a", zipfile.ZIP_DEFLATED) as bomb,
        bomb.open(f"more/{inner}", "w", force_zip64=True) as file,
    ):
        for _ in range(300):
            file.write(bytes(2**20))
    with pytest.raises(BadModel, match=r"host\.file: .* would unpack to 31\d,\d+,\d+ bytes, which is more than 100"):
        check_here(configured(**host))


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (lambda: {"model": pipeline()}, "holds a dict, and not a fitted classifier; save the model itself"),
        (lambda: LogisticRegression, "and not a fitted classifier"),
        (lambda: LogisticRegression(), "holds a LogisticRegression that was not fitted; call its `fit`"),
        (lambda: LinearRegression().fit(*numbers_of_regression()), "a LinearRegression, which is a regressor"),
        (lambda: LinearSVC().fit(*numbers()), "a LinearSVC gives no probabilities: it has no predict_proba (it has"
            " decision_function, which is no probability); wrap it in `sklearn.calibration.CalibratedClassifierCV`"),
    ],
)  # fmt: skip
def test_what_is_no_fitted_classifier_is_refused(tmp_path, made, message):
    joblib.dump(made(), tmp_path / "model.joblib")
    with pytest.raises(BadModel) as refused:
        check_here(configured(kind="sklearn", file=str(tmp_path / "model.joblib"), trust=True))
    assert message in str(refused.value)


def test_a_file_of_skops_that_was_cut_off_is_no_reason_to_trust_a_pickle(saved):
    host = saved(pipeline())
    path = Path(host["file"])
    path.write_bytes(path.read_bytes()[:2000])
    with pytest.raises(BadModel, match="is no whole file of skops: it may have been cut off") as refused:
        check_here(configured(**host))
    assert "trust" not in str(refused.value)


def numbers_of_regression():
    X, _ = numbers()
    return X, X[:, 0]


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(BadModel, match=r"host\.file: there is no file .*model\.skops"):
        check_here(configured(kind="sklearn", file=str(tmp_path / "model.skops")))
    with pytest.raises(BadModel, match=r"host\.file: .* is a folder; name the file of the model in it"):
        check_here(configured(kind="sklearn", file=str(tmp_path)))
    assert identity_if_here(configured(kind="sklearn", file=str(tmp_path / "model.skops"))) is None


def test_columns_that_the_model_does_not_have(saved):
    wrong = {**COLUMNS, "smokers": "number"}
    del wrong["smoker"]
    with pytest.raises(BadModel, match=r"columns\.smokers: the model has no column 'smokers'; .* mean `smoker`"):
        check_here(configured(**saved(pipeline(), input={"kind": "table", "columns": wrong})))
    few = {"age": "number", "job": "category"}
    with pytest.raises(BadModel, match=r"host\.input\.columns: the model also takes smoker, note; name each column"):
        check_here(configured(**saved(pipeline(), input={"kind": "table", "columns": few})))


class Odd(LogisticRegression):
    """Gives what it was made with in the place of probabilities."""

    def __init__(self, gives="nan"):
        super().__init__()
        self.gives = gives

    def predict_proba(self, X):
        right = super().predict_proba(X)
        if self.gives == "error":
            raise RuntimeError("boom")
        if self.gives == "texts":
            return [["a", "b", "c"]] * len(X)
        if self.gives == "narrow":
            return right[:, :2]
        right[0, 0] = np.nan if self.gives == "nan" else 7.0
        return right


@pytest.mark.parametrize(
    ("gives", "error"),
    [
        ("error", (RuntimeError, "boom")),
        ("texts", (BadModelOutput, "gave no array of numbers")),
        ("narrow", (BadModelOutput, r"gave \[2, 2\]; it should give \[2, 3\], a column for each class")),
        ("large", (BadModelOutput, "predict_proba of model.joblib")),
        ("nan", None),
    ],
)
def test_what_a_model_may_give_wrong(tmp_path, gives, error):
    X, y = numbers()
    joblib.dump(Odd(gives).fit(X, y), tmp_path / "model.joblib")
    model = configured(kind="sklearn", file=str(tmp_path / "model.joblib"), trust=True)
    if error is None:
        assert ask(model, X[:2].tolist(), warm=False)[1].usable().tolist() == [False, True]
        return
    with pytest.raises(error[0], match=error[1]):
        ask(model, X[:2].tolist())


def test_another_version_of_scikit_learn_is_remarked(tmp_path):
    with zipfile.ZipFile(tmp_path / "old.skops", "w") as old, zipfile.ZipFile(_plain(tmp_path)) as new:
        for name in new.namelist():
            content = new.read(name)
            if name == "schema.json":
                from sklearn import __version__

                content = content.replace(f'\\"{__version__}\\"'.encode(), b'\\"1.2.2\\"')
            old.writestr(name, content)
    loaded, _ = ask(configured(kind="sklearn", file=str(tmp_path / "old.skops")), [[1, 2, 3, 4]])
    (remark,) = loaded.remarks()
    assert "was saved with scikit-learn 1.2.2, and" in remark


def _plain(folder):
    skops.io.dump(LogisticRegression().fit(*numbers()), folder / "new.skops")
    return folder / "new.skops"


def test_an_artifact_is_bound_to_the_file_and_to_the_order_of_its_columns(saved, tmp_path):
    X, y = numbers()
    host = saved(LogisticRegression().fit(X, y))
    first = identity_of(configured(**host)).fingerprint
    assert first == identity_of(configured(cpus=2, **host)).fingerprint
    ab = {"kind": "table", "columns": dict.fromkeys("abcd", "number")}
    ba = {"kind": "table", "columns": dict.fromkeys("bacd", "number")}
    assert len({first, *(identity_of(configured(**host, input=one)).fingerprint for one in (ab, ba))}) == 3
    saved(LogisticRegression(C=0.5).fit(X, y))
    assert identity_of(configured(**host)).fingerprint != first


@pytest.mark.slow
def test_a_column_whose_missing_texts_are_none(saved):
    table = pd.DataFrame({"job": pd.Series(["a", "b", None] * 30, dtype=object), "age": np.arange(90.0)})
    fitted = make_pipeline(
        make_column_transformer((OneHotEncoder(), ["job"]), (OrdinalEncoder(), ["age"])),
        LogisticRegression(max_iter=500),
    ).fit(table, [*LABELS] * 30)
    loaded, output = ask(configured(**saved(fitted)), [[None, 4], ["b", 0]])
    assert loaded.spec.columns["job"].missing
    wanted = pd.DataFrame({"job": pd.Series([None, "b"], dtype=object), "age": [4.0, 0.0]})
    assert (output.probabilities == by_label(fitted, wanted)).all()


def test_what_goes_into_a_host_of_tables_only():
    with pytest.raises(ValueError, match="takes table or text; for image write a class of your own"):
        configured(kind="sklearn", file="m", input={"kind": "image", "channels": 1, "height": 2, "width": 2})
    assert TASK["kind"] == "multiclass"

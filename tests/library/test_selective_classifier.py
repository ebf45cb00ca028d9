"""The classifier that may say "I don't know": real estimators, bad inputs, and promises that are kept."""

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.datasets import make_multilabel_classification
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.multiclass import OneVsRestClassifier
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.estimator_checks import parametrize_with_checks

import demur
from demur.calibration_store import rows_apart
from demur.calibration_store.parts import take_apart
from demur.calibration_store.rows_apart import TooFewRows
from demur.calibration_store.shortfall import PromiseOutOfReach, RanksAtChance
from demur.calibration_store.store import ArtifactStore
from demur.library.given_rows import trained_and_calibrated
from demur.library.selective_classifier import SelectiveClassifier
from tests.library.rows import THRESHOLD, cancer, digits, drawn, linear, split_digits

TOO_FEW = "fits on fewer rows than a calibration and a report take; `demur fit` refuses as many"
NO_BETTER = "fits on labels that are noise, which no score tells apart; `anyway` is off"
EXPECTED_FAILURES = {
    **dict.fromkeys(
        (
            "check_classifier_data_not_an_array",
            "check_classifiers_classes",
            "check_dict_unchanged",
            "check_dont_overwrite_parameters",
            "check_dtype_object",
            "check_estimator_sparse_array",
            "check_estimator_sparse_matrix",
            "check_estimator_sparse_tag",
            "check_estimators_dtypes",
            "check_estimators_fit_returns_self",
            "check_estimators_nan_inf",
            "check_estimators_overwrite_params",
            "check_estimators_pickle",
            "check_f_contiguous_array_estimator",
            "check_fit2d_1feature",
            "check_fit2d_predict1d",
            "check_fit_score_takes_y",
            "check_methods_sample_order_invariance",
            "check_methods_subset_invariance",
            "check_n_features_in_after_fitting",
            "check_pipeline_consistency",
            "check_readonly_memmap_input",
            "check_supervised_y_2d",
        ),
        TOO_FEW,
    ),
    "check_fit_idempotent": NO_BETTER,
    "check_fit_check_is_fitted": NO_BETTER,
    "check_n_features_in": NO_BETTER,
}


def plain(**settings):
    """For the checks of scikit-learn, which compare predictions with classes: everything is answered."""
    return SelectiveClassifier(
        LogisticRegression(), policy={"kind": "threshold", "limit": 0.0}, abstain_label=-7, **settings
    )


@parametrize_with_checks([plain()], expected_failed_checks=lambda _: EXPECTED_FAILURES)
@pytest.mark.filterwarnings("ignore:invalid value encountered in cast:RuntimeWarning")
def test_scikit_learns_checks_pass_where_the_rows_are_enough(estimator, check):
    check(estimator)


@pytest.mark.slow
@parametrize_with_checks([plain(anyway=True)])
@pytest.mark.filterwarnings("ignore:invalid value encountered in cast:RuntimeWarning")
def test_all_of_scikit_learns_checks_pass_once_few_rows_are_not_refused(estimator, check, monkeypatch):
    monkeypatch.setattr(rows_apart, "SMALLEST_FIT", 1)
    check(estimator)


def test_a_binary_pipeline_is_fitted_and_calibrated_on_rows_apart():
    X, y = cancer()
    classifier = SelectiveClassifier(linear(), policy=THRESHOLD).fit(X, y)
    used = set(classifier.calibration_rows_.tolist())
    assert len(used) == len(classifier.calibration_rows_)
    assert abs(len(used) - len(X) / 2) <= 1
    assert set(classifier.report_rows_.tolist()) < used
    assert classifier.estimator_.named_steps["standardscaler"].n_samples_seen_ == len(X) - len(used)
    assert classifier.classes_.tolist() == [0, 1]
    held = np.array([one is None for one in classifier.predict(X).tolist()])
    table = classifier.decide(X)
    np.testing.assert_array_equal(held, ~table.answered)
    assert (table.confidence[table.answered] >= 0.8).all()


def test_what_the_report_is_about_is_not_what_was_fitted_on():
    X_train, X, y_train, y = split_digits()
    estimator = linear(C=0.001).fit(X_train, y_train)
    policy = {"kind": "rejection_rate", "rate": 0.2}
    classifier = SelectiveClassifier(estimator, policy=policy, scores=["entropy"]).fit_calibration(X, y)
    rows, report = classifier.report_rows_, classifier.report()
    assert report["accuracy"]["n"] == len(rows) == round(0.4 * len(X))
    right = estimator.predict(X[rows]) == y[rows]
    assert report["accuracy"]["value"] == pytest.approx(right.mean())
    table = classifier.decide(X[rows])
    assert report["coverage"]["value"] == pytest.approx(table.coverage)
    assert report["selective_risk"]["value"] == pytest.approx(1 - right[table.answered].mean())


def test_nothing_is_fitted_on_the_rows_of_the_report():
    probabilities, y = drawn(900, np.random.default_rng(0))
    settings = {"policy": {"kind": "selective_risk", "max_risk": 0.2}, "scores": ["entropy", "margin"], "anyway": True}
    first = SelectiveClassifier(**settings).fit(probabilities, y)
    other = probabilities.copy()
    other[first.report_rows_] = np.roll(probabilities[first.report_rows_], 1, axis=1)
    second = SelectiveClassifier(**settings).fit(other, y)
    np.testing.assert_array_equal(first.report_rows_, second.report_rows_)
    for one, two in zip(take_apart(first.selector_), take_apart(second.selector_), strict=True):
        assert str(one) == str(two)
    assert first.report()["accuracy"]["value"] > second.report()["accuracy"]["value"]


@pytest.mark.slow
def test_many_classes_sets_and_embeddings():
    X, y = digits()
    classifier = SelectiveClassifier(
        linear(),
        scores=["entropy", {"mahalanobis": {"shrinkage": 0.05}}],
        policy={"kind": "selective_risk", "max_risk": 0.05},
        prediction_set={"kind": "split", "alpha": 0.05},
    ).fit(X, y)
    assert "at most 5% of the answers are wrong" in classifier.report().statements[0]
    members = classifier.predict_set(X)
    assert members.shape == (len(X), 10)
    unseen = classifier.report_rows_
    assert members[unseen, y[unseen]].mean() > 0.9
    np.testing.assert_array_equal(classifier.predict_proba(X), classifier.estimator_.predict_proba(X))
    np.testing.assert_array_equal(classifier.predict_confidence(X), classifier.decide(X).confidence)


def test_texts_with_a_pipeline_and_labels_that_are_texts():
    rng = np.random.default_rng(0)
    words = {"billing": "invoice paid card refund", "outage": "down error timeout reboot"}
    topics = rng.choice(list(words), size=400)
    every = " ".join(words.values()).split()
    texts = [
        " ".join(rng.choice(words[topic].split() if rng.random() < 0.8 else every, size=3)) for topic in topics.tolist()
    ]
    classifier = SelectiveClassifier(make_pipeline(TfidfVectorizer(), LogisticRegression()), policy=THRESHOLD)
    classifier.fit(texts, topics)
    assert classifier.classes_.tolist() == ["billing", "outage"]
    sure, unsure = classifier.decide(["invoice refund card", "card down"])
    assert (sure["action"], sure["prediction"]) == ("answer", "billing")
    assert unsure["action"] == "review"
    assert classifier.predict(["reboot error timeout"]).tolist() == ["outage"]
    with pytest.raises(ValueError, match="sparse; make it short and dense, with TruncatedSVD"):
        clone(classifier).set_params(scores=["entropy", "isolation_forest"]).fit(texts, topics)


@pytest.mark.slow
@pytest.mark.parametrize(
    "estimator",
    [OneVsRestClassifier(LogisticRegression()), KNeighborsClassifier(15), RandomForestClassifier(30, random_state=0)],
    ids=["array", "list", "forest"],
)
def test_several_labels_of_a_row(estimator):
    X, y = make_multilabel_classification(n_samples=900, n_classes=4, random_state=0)
    policy = {"kind": "target_risk", "max_risk": 0.3}
    classifier = SelectiveClassifier(estimator, policy=policy, labels=["a", "b", "c", "d"], anyway=True).fit(X, y)
    answers = classifier.predict(X)
    assert answers.shape == (900, 4)
    table = classifier.decide(X)
    assert all(one is None for one in answers[~table.answered].ravel())
    np.testing.assert_array_equal(answers[table.answered] == 1, table.judgement.predicted[table.answered])
    assert table[0]["prediction"] == tuple(np.flatnonzero(table.judgement.predicted[0]).tolist())
    assert classifier.selector_.label_calibrator is not None
    assert "jaccard" in classifier.report().names
    assert 0 < classifier.score(X, y) < 1
    np.testing.assert_array_equal(
        clone(classifier).set_params(abstain_label=-1).fit(X, y).predict(X)[~table.answered], -1
    )


def test_the_default_policy_of_several_labels_counts_whole_rows():
    X, y = make_multilabel_classification(n_samples=3000, n_classes=3, random_state=0)
    classifier = SelectiveClassifier(OneVsRestClassifier(LogisticRegression()), anyway=True).fit(X, y)
    assert classifier.selector_.promises[0].target == 0.05


def test_a_label_that_was_never_there_in_training_has_probability_zero():
    X, y = make_multilabel_classification(n_samples=300, n_classes=3, random_state=0)
    y[:150, 2] = 0
    forest = RandomForestClassifier(20, random_state=0).fit(X[:150], y[:150])
    classifier = SelectiveClassifier(forest, policy={"kind": "target_risk", "max_risk": 0.5}, anyway=True)
    classifier.fit_calibration(X[150:], y[150:])
    assert (classifier.predict_proba(X)[:, 2] == 0).all()


def test_margins_functions_and_arrays_do_as_well():
    X_train, X, y_train, y = split_digits()
    machine = LinearSVC(dual=False).fit(X_train, y_train)
    by_margin = SelectiveClassifier(machine, policy=THRESHOLD, confidence={"calibrator": "temperature"})
    by_margin.fit_calibration(X, y)
    assert by_margin.predict_proba(X).sum(axis=1) == pytest.approx(1)
    forest = RandomForestClassifier(40, random_state=0).fit(X_train, y_train)
    given = SelectiveClassifier(policy=THRESHOLD).fit_calibration(forest.predict_proba(X), y)
    called = SelectiveClassifier(forest.predict_proba, policy=THRESHOLD).fit(X, y)
    wrapped = SelectiveClassifier(FrozenEstimator(forest), policy=THRESHOLD).fit(X, y)
    expected = given.decide(forest.predict_proba(X))
    for other in (called, wrapped):
        assert other.decide(X).reason.tolist() == expected.reason.tolist()
        np.testing.assert_array_equal(other.decide(X).confidence, expected.confidence)


def test_repeated_passes_give_the_scores_of_passes():
    X_train, X, y_train, y = split_digits()
    forest = RandomForestClassifier(20, max_depth=6, random_state=0).fit(X_train, y_train)

    def members(rows):
        return np.stack([tree.predict_proba(rows) for tree in forest.estimators_], axis=1)

    classifier = SelectiveClassifier(members, policy=THRESHOLD, scores=["mc_entropy", "bald"]).fit(X, y)
    np.testing.assert_allclose(classifier.predict_proba(X), forest.predict_proba(X), atol=1e-12)
    assert (classifier.decide(X).scores["bald"] > 0).any()
    with pytest.raises(ValueError, match=r"scores\.1: bald looks at repeated passes, and RandomForestClassifier makes"):
        SelectiveClassifier(forest, policy=THRESHOLD, scores=["entropy", "bald"]).fit_calibration(X, y)


def test_binary_probabilities_may_be_those_of_the_positive_class_alone():
    rng = np.random.default_rng(0)
    p = rng.random(400)
    y = rng.random(400) < p
    one = SelectiveClassifier(policy=THRESHOLD).fit(p, y)
    two = SelectiveClassifier(policy=THRESHOLD).fit(np.column_stack([1 - p, p]), y)
    assert one.classes_.tolist() == [False, True]
    assert one.predict(p[:50]).tolist() == two.predict(np.column_stack([1 - p, p])[:50]).tolist()


@pytest.mark.parametrize(
    ("classes", "abstain_label", "kind"),
    [
        ([0, 1], None, "O"),
        ([0, 1], -1, "i"),
        ([0.0, 1.0], np.nan, "f"),
        ([False, True], None, "O"),
        (["no", "yes"], "unknown", "U"),
        (["no", "yes"], None, "O"),
    ],
)
def test_classes_keep_their_type_and_what_is_held_is_marked(classes, abstain_label, kind):
    X, y = cancer()
    names = np.array(classes)[y]
    classifier = SelectiveClassifier(linear(), policy=THRESHOLD, abstain_label=abstain_label).fit(X, names)
    assert classifier.classes_.dtype == names.dtype
    answers, table = classifier.predict(X), classifier.decide(X)
    assert answers.dtype.kind == kind
    assert 0 < table.answered.sum() < len(X)
    assert set(map(str, answers[~table.answered].tolist())) == {str(abstain_label)}
    assert set(answers[table.answered].tolist()) == set(classes)
    assert classifier.labels_.labels == tuple("01" if isinstance(classes[0], float) else map(str, classes))


def test_y_may_be_of_another_type_of_number_than_in_training():
    X, y = cancer()
    estimator = linear().fit(X[:200], y[:200])
    classifier = SelectiveClassifier(estimator, policy=THRESHOLD).fit_calibration(X[200:], y[200:].astype(float))
    assert classifier.predict_confidence(X[:1])[0] > 0


def test_data_frames_keep_the_names_of_their_columns():
    pandas = pytest.importorskip("pandas")
    X, y = cancer()
    frame = pandas.DataFrame(X, columns=[f"f{at}" for at in range(X.shape[1])])
    names = pandas.Series(np.array(["bad", "good"])[y])
    classifier = SelectiveClassifier(linear(), policy=THRESHOLD).fit(frame, names)
    assert classifier.feature_names_in_.tolist() == frame.columns.tolist()
    assert classifier.n_features_in_ == X.shape[1]
    columns = classifier.decide(frame[:3]).to_pandas()
    assert columns.columns.tolist() == [
        *("action", "reason", "prediction", "confidence", "set"),
        *("score_softmax_response", "score_entropy"),
    ]
    with pytest.raises(ValueError, match="feature names"):
        classifier.predict(frame.rename(columns={"f0": "g0"}))


def test_a_row_without_a_number_is_held_and_says_so():
    rng = np.random.default_rng(0)
    probabilities, y = drawn(600, rng)
    classifier = SelectiveClassifier(policy=THRESHOLD).fit(probabilities, y)
    broken = probabilities[:4].copy()
    broken[1, 2] = np.nan
    table = classifier.decide(broken)
    assert table[1]["action"] == "review"
    assert "is not a number" in table[1]["reason"]
    assert table[1]["prediction"] is None
    assert np.isnan(table[1]["confidence"])
    assert classifier.predict(broken)[1] is None
    others = classifier.decide(probabilities[[0, 2, 3]])
    np.testing.assert_array_equal(np.delete(table.confidence, 1), others.confidence)
    with pytest.raises(ValueError, match=r"gave 1 of 600 calibration rows an output that is not a number, .* row 1"):
        SelectiveClassifier(policy=THRESHOLD).fit(np.vstack([broken, probabilities[4:]]), y)


@pytest.mark.slow
def test_one_row_is_a_batch_of_one():
    X, y = digits()
    classifier = SelectiveClassifier(linear(), policy=THRESHOLD).fit(X, y)
    assert classifier.predict(X[:1]).shape == (1,)
    assert len(classifier.decide(X[:1])) == 1


PROBABILITIES, CLASSES = drawn(800, np.random.default_rng(1))
FITTED = SelectiveClassifier(
    policy={"kind": "target_risk", "max_risk": 0.2}, prediction_set={"kind": "adaptive", "alpha": 0.2}
).fit(PROBABILITIES, CLASSES)


@given(st.lists(st.integers(0, 799), min_size=1, max_size=20))
def test_what_is_decided_about_a_row_does_not_depend_on_its_neighbours(rows):
    together = FITTED.decide(PROBABILITIES[rows])
    for place, row in enumerate(rows):
        alone = FITTED.decide(PROBABILITIES[[row]])
        assert alone[0] == together[place]


@pytest.mark.slow
def test_the_promise_is_kept_as_often_as_it_says():
    rng = np.random.default_rng(7)
    fresh, truth = drawn(20_000, rng)
    policy = {"kind": "selective_risk", "max_risk": 0.15, "delta": 0.1}
    broken = fitted = 0
    for seed in range(60):
        probabilities, y = drawn(1000, rng)
        classifier = SelectiveClassifier(policy=policy, random_state=seed)
        try:
            classifier.fit(probabilities, y)
        except PromiseOutOfReach:
            continue
        fitted += 1
        table = classifier.decide(fresh)
        wrong = table.judgement.predicted[np.arange(len(truth)), truth] == 0
        broken += wrong[table.answered].mean() > 0.15
    assert fitted > 30
    assert broken <= 12  # 6 of 60 are expected at the most; 12 or more by chance in one of a hundred such tests


def test_too_little_is_refused_as_by_the_command():
    X, y = cancer()
    with pytest.raises(TooFewRows, match="at least 20 to fit on"):
        SelectiveClassifier(linear(), policy=THRESHOLD).fit(X[:40], y[:40])
    strict = SelectiveClassifier(linear(), policy={"kind": "selective_risk", "max_risk": 0.001})
    with pytest.raises(PromiseOutOfReach, match=r"label at least .* rows"):
        strict.fit(X, y)
    strict.set_params(anyway=True).fit(X, y)
    assert strict.decide(X).coverage == 0
    assert any("no limit can promise" in remark for remark in strict.report().remarks)
    rng = np.random.default_rng(0)
    with pytest.raises(RanksAtChance, match="no better than chance"):
        SelectiveClassifier(policy=THRESHOLD).fit(rng.dirichlet(np.ones(3), size=900), rng.integers(3, size=900))


@pytest.mark.parametrize(
    ("estimator", "kind", "complaint"),
    [
        (LinearRegression(), TypeError, "LinearRegression has neither .* it is a regressor"),
        (LogisticRegression, TypeError, "LogisticRegression is a class; give an object of it"),
        ("a name", TypeError, "str has neither predict_proba"),
    ],
)
def test_what_is_no_classifier_is_refused_before_it_is_trained(estimator, kind, complaint):
    X, y = cancer()
    with pytest.raises(kind, match=complaint):
        SelectiveClassifier(estimator).fit(X, y)
    with pytest.raises(kind, match=complaint):
        SelectiveClassifier(estimator).fit_calibration(X, y)


class Untrainable(LogisticRegression):
    """It costs too much to be trained in vain."""

    def fit(self, X, y):
        pytest.fail("it was trained before the settings and the rows were looked at")


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"policy": {"kind": "selective_risc"}}, "did you mean"),
        ({"policy": {"kind": "selective_risk", "max_risk": 0.001}}, "label at least"),
        ({"report_share": 0}, "report_share"),
        ({"calibration_share": 1}, "calibration_share"),
        ({"labels": ["a", "b", "c"]}, "there are 3 texts, and the estimator has 2 classes"),
    ],
)
def test_settings_are_looked_at_before_a_model_is_trained(settings, complaint):
    with pytest.raises(ValueError, match=complaint):
        SelectiveClassifier(Untrainable(), **settings).fit(*cancer())


def test_what_was_not_fitted_says_so():
    X, y = cancer()
    with pytest.raises(NotFittedError, match="LogisticRegression"):
        SelectiveClassifier(LogisticRegression()).fit_calibration(X, y)
    for method in ("predict", "decide", "predict_proba", "predict_set", "predict_confidence"):
        with pytest.raises(NotFittedError, match="SelectiveClassifier"):
            getattr(SelectiveClassifier(linear()), method)(X)
    with pytest.raises(NotFittedError, match="SelectiveClassifier"):
        SelectiveClassifier(linear()).report()


@pytest.mark.parametrize(
    ("y", "complaint"),
    [
        (lambda y: np.where(y, "good", "bad"), "labels that the estimator does not have: 'bad', 'good'; it has: 0, 1"),
        (lambda y: y + 1, "does not have: 2; it has: 0, 1"),
        (lambda y: y + 0.5, "[Cc]ontinuous"),
        (lambda y: None, "requires y to be passed"),
        (lambda y: y[:-1], "inconsistent numbers of samples"),
        (lambda y: np.column_stack([y, y + 1, y]), "several columns of classes"),
        (lambda y: np.column_stack([y, 1 - y]), "these are classes; give them as"),
    ],
)
def test_labels_that_do_not_fit_the_estimator_are_refused(y, complaint):
    X, classes = cancer()
    classifier = SelectiveClassifier(linear().fit(X, classes), policy=THRESHOLD, anyway=True)
    with pytest.raises(ValueError, match=complaint):
        classifier.fit_calibration(X, y(classes))


def test_rows_of_another_width_are_refused():
    X, y = cancer()
    classifier = SelectiveClassifier(linear(), policy=THRESHOLD).fit(X, y)
    with pytest.raises(ValueError, match="features"):
        classifier.predict(X[:, 1:])
    probabilities, y = drawn(200, np.random.default_rng(0))
    given = SelectiveClassifier(policy=THRESHOLD).fit(probabilities, y)
    with pytest.raises(ValueError, match=r"gave \[200, 2\] for these rows; it should give \[n, 3\]"):
        given.predict(probabilities[:, :2])
    with pytest.raises(ValueError, match=r"come to 0\.5"):
        given.predict(probabilities / 2)


class OwnModel:
    """A model of no library: its classes are a list, and it may lose a row."""

    def __init__(self, classes, lost=0):
        self.classes_ = classes
        self.lost = lost

    def predict_proba(self, rows):
        if self.lost > len(rows):
            raise RuntimeError("boom")
        return np.asarray(rows)[self.lost :].tolist()


def test_a_model_of_no_library_may_be_wrapped():
    probabilities, y = drawn(300, np.random.default_rng(0))
    fitted = SelectiveClassifier(OwnModel([0, 1, 2]), policy=THRESHOLD).fit(probabilities, y)
    assert fitted.predict_proba(probabilities[:2]).tolist() == probabilities[:2].tolist()
    with pytest.raises(ValueError, match="gave 299 rows of probabilities for 300 rows"):
        SelectiveClassifier(OwnModel([0, 1, 2], lost=1), policy=THRESHOLD).fit(probabilities, y)
    with pytest.raises(RuntimeError, match="boom"):
        SelectiveClassifier(OwnModel([0, 1, 2], lost=900), policy=THRESHOLD).fit(probabilities, y)
    with pytest.raises(ValueError, match="tells several labels of each row"):
        SelectiveClassifier(OwnModel([np.array([0, 1])] * 3), policy=THRESHOLD).fit(probabilities, y)


def test_one_class_is_nothing_to_decide():
    X, _ = cancer()
    with pytest.raises(ValueError, match="one class"):
        SelectiveClassifier(DecisionTreeClassifier(), policy=THRESHOLD).fit(X, np.zeros(len(X), dtype=int))


@pytest.mark.slow
def test_a_class_with_one_row_is_trained_on():
    X, y = digits()
    names = np.where(np.arange(len(y)) == 17, 99, y)
    classifier = SelectiveClassifier(linear(), policy=THRESHOLD).fit(X, names)
    assert 99 in classifier.classes_
    assert 17 not in classifier.calibration_rows_


def test_classes_that_the_rows_lack_may_be_named():
    probabilities, y = drawn(300, np.random.default_rng(0))
    few = y < 2
    with pytest.raises(ValueError, match=r"it should give \[n, 2\]"):
        SelectiveClassifier(policy=THRESHOLD).fit(probabilities[few], y[few])
    named = SelectiveClassifier(policy=THRESHOLD, labels=["a", "b", "c"]).fit(probabilities[few], y[few])
    assert named.classes_.tolist() == [0, 1, 2]
    texts = SelectiveClassifier(policy=THRESHOLD, labels=["a", "b", "c"])
    assert texts.fit(probabilities[few], np.array(["a", "b"])[y[few]]).classes_.tolist() == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"policy": {"kind": "selective_risc"}}, "policy.kind: .* did you mean `selective_risk`"),
        ({"policy": {"kind": "selective_risk", "max_risk": 2}}, "max_risk"),
        ({"policy": {"max_risk": 0.1}}, "policy.kind: this key is missing"),
        ({"policy": "threshold"}, "policy: write keys and values"),
        ({"scores": ["entropie"]}, r"scores\.0: .* did you mean `entropy`"),
        ({"scores": []}, "write a list of names"),
        ({"scores": ["g_nll"]}, "reads the replies of a language model, and LogisticRegression gives probabilities"),
        ({"scores": ["binary_entropy"]}, "not defined for a binary task"),
        ({"scores": ["entropy", "mahalanobis"]}, "LogisticRegression gives none; give it a method `embed`"),
        ({"confidence": {"score": "margin"}}, "'margin' is not among the scores"),
        ({"confidence": {"calibrator": "isotone"}}, "did you mean `isotonic`"),
        ({"confidence": {"sore": "entropy"}}, "confidence.sore"),
        ({"prediction_set": {"kind": "sampled"}}, "repeated passes"),
        ({"thresholds": "max_f1"}, "for multilabel tasks"),
        ({"labels": ["one"]}, "there are 1 texts, and the estimator has 2 classes"),
        ({"labels": ["a", "a"]}, "not all different"),
        ({"labels": [1, 2]}, "is not a text"),
        ({"abstain_label": 1}, "abstain_label: 1 is one of the classes"),
        ({"abstain_label": [-1, -2]}, "is several values"),
        ({"report_share": 1.0}, "report_share"),
        ({"policy": {"kind": "threshold", "limit": object()}}, "cannot be written down"),
    ],
)
def test_settings_are_refused_in_the_words_of_the_configuration(settings, complaint):
    X, y = cancer()
    X = StandardScaler().fit_transform(X)
    estimator = LogisticRegression().fit(X, y)
    with pytest.raises(ValueError, match=complaint):
        SelectiveClassifier(estimator, **settings).fit_calibration(X, y)


def test_costs_are_named_by_class():
    X, y = cancer()
    matrix = {0: {0: 0, 1: 10}, 1: {0: 1, 1: 0}}
    policy = {"kind": "cost", "matrix": matrix, "reject_cost": 0.5}
    table = SelectiveClassifier(linear(), policy=policy).fit(X, y).decide(X)
    assert 0 < table.coverage < 1
    assert table.judgement.predicted[:, 0].mean() < np.mean(y == 0)  # to say 0 of what is 1 costs most


def test_groups_reach_the_sets():
    probabilities, y = drawn(2000, np.random.default_rng(3))
    groups = np.where(np.arange(2000) % 2, "north", "south")
    sets = {"kind": "group_conditional", "alpha": 0.1}
    classifier = SelectiveClassifier(policy=THRESHOLD, prediction_set=sets)
    classifier.fit(probabilities, y, groups)
    sizes = [classifier.predict_set(probabilities, [name] * 2000).sum() for name in ("north", "south")]
    assert sizes[0] != sizes[1]
    with pytest.raises(ValueError, match="lengths differ"):
        classifier.decide(probabilities, groups[:5])


def test_rows_with_weights_are_thinned_for_what_is_counted():
    probabilities, y = drawn(2000, np.random.default_rng(3))
    weights = np.where(np.arange(2000) % 2, 1.0, 4.0)
    classifier = SelectiveClassifier(policy=THRESHOLD).fit_calibration(probabilities, y, sample_weight=weights)
    assert classifier.report().fit.n_plain < 1600
    assert len(classifier.report_rows_) == classifier.report().fit.n_reported
    for wrong in ([1.0, 2.0], np.zeros(2000), np.full(2000, np.nan)):
        with pytest.raises(ValueError, match="sample_weight"):
            SelectiveClassifier(policy=THRESHOLD).fit_calibration(probabilities, y, sample_weight=wrong)


@pytest.mark.slow
def test_it_is_cloned_pickled_and_searched_over_like_any_estimator():
    X, y = cancer()
    classifier = SelectiveClassifier(linear(), policy=THRESHOLD, random_state=3)
    assert clone(classifier).get_params()["policy"] == THRESHOLD
    search = GridSearchCV(classifier, {"policy": [THRESHOLD, {"kind": "threshold", "limit": 0.95}]}, cv=3).fit(X, y)
    assert search.best_params_["policy"] == THRESHOLD  # it answers more, and rightly
    again = pickle.loads(pickle.dumps(search.best_estimator_))
    assert again.decide(X).reason.tolist() == search.best_estimator_.decide(X).reason.tolist()
    assert str(again.report()) == str(search.best_estimator_.report())
    classifier.set_params(estimator__logisticregression__C=0.01).fit(X, y)
    assert classifier.estimator_.named_steps["logisticregression"].C == 0.01


def test_one_seed_gives_one_fit():
    X, y = cancer()
    fits = [SelectiveClassifier(linear(), policy=THRESHOLD, random_state=seed).fit(X, y) for seed in (5, 5, 6)]
    rows = [fit.report_rows_.tolist() for fit in fits]
    assert rows[0] == rows[1] != rows[2]
    drawn_seeds = [
        SelectiveClassifier(linear(), policy=THRESHOLD, random_state=np.random.RandomState(1)).fit(X, y).report_rows_
        for _ in range(2)
    ]
    np.testing.assert_array_equal(*drawn_seeds)


def test_a_score_counts_what_is_held_as_not_right():
    X, y = cancer()
    classifier = SelectiveClassifier(linear(), policy=THRESHOLD).fit(X, y)
    answers = classifier.predict(X)
    assert classifier.score(X, y) == pytest.approx(np.mean([a == b for a, b in zip(answers, y, strict=True)]))
    with pytest.raises(ValueError, match="not of the kind"):
        classifier.score(X, np.column_stack([y, y]))


def test_the_package_has_it_under_its_own_name():
    assert demur.SelectiveClassifier is SelectiveClassifier


def long_tail(n, n_rare, rng):
    """Four classes that are easy to tell apart, and one row in five that looks like these and is of a rare class."""
    y = rng.integers(0, 4, n)
    X = 4 * np.eye(4)[y] + rng.normal(size=(n, 4))
    rare = rng.random(n) < 0.2
    return X, np.where(rare, 10 + rng.integers(0, n_rare, n), y)


def test_rare_classes_that_no_promise_would_see_are_refused():
    """Each rare row would be trained on, so that no row to calibrate on is wrong: 10% was promised and 23% were."""
    policy = {"kind": "selective_risk", "max_risk": 0.1, "delta": 0.1}
    model = SelectiveClassifier(DecisionTreeClassifier(min_samples_leaf=20), policy=policy, prediction_set=None)
    with pytest.raises(TooFewRows, match="have a class that no other row to train on has"):
        model.set_params(anyway=True).fit(*long_tail(1_000, 100_000, np.random.default_rng(0)))


def test_a_single_row_of_a_rare_class_is_told_of():
    X, y = long_tail(1_000, 1, np.random.default_rng(0))
    y[y == 10] = 0
    y[:2] = (98, 99)
    said = []
    for seed in range(4):
        model = SelectiveClassifier(linear(), policy=THRESHOLD, prediction_set=None, random_state=seed).fit(X, y)
        told = [one for one in model.report().remarks if "have a class that no other row to train on has" in one]
        moved = 500 - len(model.calibration_rows_)
        assert [one.split(" of ")[0] for one in told] == ([str(moved)] if moved else [])
        said.append(moved)
    assert 0 < max(said) <= 2


def test_a_promise_says_which_classes_it_is_about(tmp_path):
    X, y = long_tail(1_000, 1, np.random.default_rng(0))
    y[y == 10] = 0
    y[:3] = (98, 98, 99)
    among = set()
    for seed in range(6):
        policy = {"kind": "selective_risk", "max_risk": 0.3, "delta": 0.1}
        model = SelectiveClassifier(linear(), policy=policy, anyway=True, random_state=seed)
        model.fit(X, y)
        assert set(np.delete(y, model.calibration_rows_)) == set(y)  # every class is trained on
        promise = model.report().promises[0]
        saved = model.save(tmp_path, model=f"rare{seed}", identity="given")
        told = ArtifactStore(str(tmp_path)).load(f"rare{seed}", saved.name).manifest["promises"][0]
        assert promise.statement in model.report().statements[0]
        assert promise.statement == saved.promises[0] == told["statement"]
        among.add(promise.among)
        assert bool(promise.among) == (f"among inputs {promise.among}" in promise.statement) == bool(told["among"])
    assert among >= {"", "whose label is one of 5 of the 6 classes (the others have too few labelled rows)"}


def test_rows_to_calibrate_on_have_only_classes_that_were_drawn_to_train_on():
    target = np.array([0] * 30 + [1, 1, 2])
    for seed in range(30):
        parts = trained_and_calibrated(target, True, 0.5, np.random.default_rng(seed))
        left_out = set(target) - set(target[parts.calibrated])
        assert parts.classes == 3
        assert parts.classes_left_out <= len(left_out)
        assert bool(parts.moved) == (f"one of {3 - parts.classes_left_out} of the 3 classes" in parts.among)
        assert set(target[parts.trained]) == {0, 1, 2}

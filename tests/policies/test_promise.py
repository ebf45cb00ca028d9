from demur.policies.promise import LABELS_MISSING, Promise, among_labels, as_it_holds, at_most_labels, of_clusters

RISK = {"share": "of the answers are wrong", "target": 0.02, "n": 1200}


def test_a_promise_is_a_sentence_with_its_condition():
    assert Promise(**RISK, delta=0.05).statement == (
        "at most 2% of the answers are wrong, except with probability 5%, as long as later traffic is drawn like the"
        " calibration data"
    )
    assert "2% of the answers are wrong, on average, as long as" in Promise(**RISK, delta=None).statement


def test_what_cannot_be_promised_is_not():
    assert Promise(**RISK, delta=0.05, feasible=False).statement == (
        "nothing is promised: 1,200 labelled rows cannot show that at most 2% of the answers are wrong"
    )


def test_a_promise_of_rows_that_were_left_out_says_which_inputs_it_is_about():
    promise = among_labels(of_clusters(Promise(**RISK, delta=0.05)), "whose label is one of 97 of the 99 classes")
    assert promise.statement.startswith(
        "at most 2% of the answers are wrong, among inputs whose label is one of 97 of the 99 classes, except with"
        " probability 5%, as long as later clusters"
    )
    assert among_labels(Promise(**RISK, delta=0.05), "") == Promise(**RISK, delta=0.05)


def test_a_promise_that_rests_on_a_declared_number_says_so():
    assert at_most_labels(None) == "later traffic is drawn like the calibration data"
    assert at_most_labels(3).endswith("calibration data and no input has more than 3 labels")


def test_only_sentences_that_were_not_true_are_changed():
    promise = {"share": LABELS_MISSING, "target": 0.1, "statement": f"at most 10% {LABELS_MISSING}"}
    assert as_it_holds(promise) == promise
    assert as_it_holds({"share": 7}) == {"share": 7}
    old = as_it_holds({"share": "of the labels that hold are not predicted", "target": 0.1})
    assert old["share"] == "of a row's labels are not predicted (a row without labels misses nothing)"

from demur.policies.promise import Promise

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

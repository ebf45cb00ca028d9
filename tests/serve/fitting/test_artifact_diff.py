"""Two manifests side by side: what differs, what is equal, and values as people read them."""

from demur.serve.fitting.artifact_diff import diff_of, settings_against

A = {
    "configured": {"policy": {"kind": "threshold", "limit": 0.3}, "scores": ["a", "b"], "prompt": None},
    "data": {"file": "a.csv", "sha256": "x"},
    "report": {
        "ece": {"value": 0.123456, "lower": 0.1, "upper": 0.2, "n": 9},
        "bins": [[1, 2]] * 3,
        "groups": {"a": {"n": 3}},
    },
    "n_fitted": 100,
    "promises": [{"statement": "at most 5% are wrong"}],
}
B = {**A, "configured": {"policy": {"kind": "threshold", "limit": 0.3000000001}, "scores": ["a"], "prompt": {"t": 1}}}


def test_what_differs_is_marked_place_by_place():
    sections = {one.name: one for one in diff_of([A, B])}
    assert list(sections) == ["Settings", "Promise and rows", "Data", "Figures", "Figures of parts"]
    assert {row.key: row.values for row in sections["Settings"].differing} == {
        "policy.limit": ("0.3", "0.3"),  # compared as they are stored
        "scores": ("a; b", "a"),
        "prompt.t": ("–", "1"),
    }
    assert [row.key for row in sections["Settings"].equal] == ["policy.kind"]
    assert not sections["Data"].differing
    assert {row.key: row.values[0] for row in sections["Figures"].rows} == {
        "ece": "0.1235 (0.1 to 0.2)",
        "bins": "3 entries",
    }
    assert [row.key for row in sections["Figures of parts"].rows] == ["groups.a.n"]


def test_an_artifact_without_a_report_has_dashes():
    sections = {one.name: one for one in diff_of([A, {}])}
    assert sections["Figures"].rows[0].values == ("0.1235 (0.1 to 0.2)", "–")
    assert diff_of([{}, {}]) == []


def test_the_settings_of_now_stand_beside_those_of_the_fit():
    (section,) = settings_against(A, {**A["configured"], "scores": ["a"]})
    assert [row.key for row in section.differing] == ["scores"]

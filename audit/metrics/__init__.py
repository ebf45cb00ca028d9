"""Statistics as functions of arrays: every metric, interval and sequential test, from all labels or from some."""

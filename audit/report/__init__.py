"""The report of an audit: what the labels of some records say about all of them, with intervals."""

"""The way of a request from its body to its committed answer, in four stages: read, decide, finish, commit."""

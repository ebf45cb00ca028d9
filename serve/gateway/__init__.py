"""The road of a request, from HTTP to its committed answer."""

"""From the `input` of a request to what a model takes. Whatever does not fit is refused."""

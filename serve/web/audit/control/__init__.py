"""Controls: what labels move, and the page and gauges over all of them."""

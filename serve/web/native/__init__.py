"""The native API: predictions, outcomes and health."""

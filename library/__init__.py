"""demur in Python: settings become a selector, any classifier gets calibrated confidence, and results are drawn."""

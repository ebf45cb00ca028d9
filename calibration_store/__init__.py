"""What was fitted, on what, and which of it is in force."""

"""PostgreSQL: demur's own one, and the schema of all its parts."""

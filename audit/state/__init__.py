"""What monitors, controls and audits have come to, in the database: read and written while the service runs."""

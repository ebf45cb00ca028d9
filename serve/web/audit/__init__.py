"""Audits inside the service: made on a schedule, kept, shown and compared."""

"""Background work: webhooks, canaries, audits, monitors and controls."""

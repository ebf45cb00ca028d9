"""Selective prediction as a service: calibrated confidence, abstention, human review, and an audit of the promise."""

"""Scheduled audits: planned, made in processes of their own, and stored."""

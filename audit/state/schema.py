"""The tables of audits and monitors."""

from pathlib import Path

from demur.traffic.database import migrations_in

AUDIT_MIGRATIONS = migrations_in("audit", Path(__file__).parent / "migrations")

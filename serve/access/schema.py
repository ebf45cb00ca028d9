"""The tables of keys, codes and sessions."""

from pathlib import Path

from demur.traffic.database import migrations_in

ACCESS_MIGRATIONS = migrations_in("access", Path(__file__).parent / "migrations")

"""The configuration, and what it asks for."""

"""How an input is rated by comparing it with others."""

from pathlib import Path

from pydantic import Field

from demur.serve.config.settings import Section


class TournamentConfig(Section):
    """A binary input is rated by comparing it with inputs whose ratings are known (`demur rank`)."""

    ratings: Path
    """What `demur rank` wrote."""

    anchors: int = Field(default=64, ge=2, le=10_000)
    """How many of the rated inputs it may meet, spread over the ratings."""

    rounds: int = Field(default=8, ge=1, le=1000)
    """How many of them it meets."""

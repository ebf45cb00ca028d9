"""The options of `demur fit` about other traffic than that of the labelled rows."""

from pathlib import Path
from typing import Annotated

import typer

from demur.serve.config.file import BadConfig

ForTraffic = Annotated[
    Path | None,
    typer.Option(
        help="Inputs of the traffic of now, labelled or not, in the form of the labelled file: the rows that carry the"
        " promise are weighted to stand for them."
    ),
]
ForTrafficSince = Annotated[
    str | None,
    typer.Option(help="The same for the records of the log since 7d, 12h, 30m ago or a date like 2026-11-21."),
]


def check_for_traffic(file: Path | None, since: str | None, fitted_since: str | None) -> None:
    """Raise `BadConfig` unless at most one part of the traffic is named, beside a labelled file."""
    if file is not None and since is not None:
        raise BadConfig("for which traffic? give either --for-traffic FILE or --for-traffic-since")
    if fitted_since is not None and (file is not None or since is not None):
        raise BadConfig(
            "--for-traffic goes with a labelled file; labelled records of the log are already of the traffic"
        )

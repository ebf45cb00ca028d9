"""How a labelled file is read: the options that say so, over what the configuration says."""

from typing import Annotated

import typer

from demur.serve.config.file import ModelConfig
from demur.traffic.file_form import FileForm

InputColumn = Annotated[
    str | None,
    typer.Option(
        "--input-column", help="Column with the inputs; `calibration.input_column`, else `input`, by default."
    ),
]
LabelColumn = Annotated[
    str | None,
    typer.Option(
        "--label-column", help="Column with the labels; `calibration.label_column`, else `label`, by default."
    ),
]
ClusterColumn = Annotated[
    str | None,
    typer.Option(
        "--cluster",
        help="Column that names what rows belong to, such as a patient; `calibration.cluster_column`, else `cluster`,"
        " by default.",
    ),
]
Encoding = Annotated[
    str | None,
    typer.Option(
        "--encoding",
        help="Encoding of a .csv or .jsonl, such as cp1252, as Excel writes it; `calibration.encoding`, else UTF-8 (or"
        " what the first bytes of the file say), by default.",
    ),
]


NO_FILE = (
    "--input-column, --label-column, --cluster and --encoding say how a labelled file is read; leave them out with"
    " --since"
)


def file_form(
    model: ModelConfig,
    input_column: str | None,
    label_column: str | None,
    encoding: str | None,
    cluster: str | None = None,
) -> FileForm:
    """What the options say, and where they say nothing the configuration."""
    return model.file_form.changed(input=input_column, label=label_column, encoding=encoding, cluster=cluster)

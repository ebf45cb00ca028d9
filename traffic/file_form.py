"""How a file of labelled rows is to be read."""

from dataclasses import dataclass, replace

LABEL_COLUMNS: dict[str, tuple[str, ...]] = {
    "probabilities": ("p_", "prob_", "proba_", "probability_"),
    "logits": ("logit_",),
}
"""With which the column of a label may begin, by what it holds."""


@dataclass(frozen=True, kw_only=True)
class FileForm:
    """What a file calls its columns, and its encoding."""

    input: str = "input"
    label: str = "label"
    """`labels` will do as well where nothing else is named."""

    cluster: str = "cluster"
    """Rows with one name there belong together. A file need not have it, unless another name than this is chosen."""

    encoding: str | None = None
    """None: as the file's first bytes say, else UTF-8."""

    whole: bool = False
    """Whether every column is wanted, beside `input`: where the rows hold what a model said."""

    section: str = "calibration"
    """Which section of a model says all this; empty where only options do."""

    def changed(
        self, *, input: str | None, label: str | None, encoding: str | None, cluster: str | None = None
    ) -> "FileForm":
        """Return this form with what is not None."""
        return replace(
            self,
            input=input or self.input,
            label=label or self.label,
            encoding=encoding or self.encoding,
            cluster=cluster or self.cluster,
        )

    def setting(self, key: str) -> str:
        """Return where somebody sets `input_column`, `label_column`, `cluster_column` or `encoding`."""
        option = "--cluster" if key == "cluster_column" else f"--{key.replace('_', '-')}"
        if not self.section:
            return option
        option = f"{option} or " if self.section == "calibration" else ""
        return f"{option}{self.section}.{key}"

"""Whether a model was asked in the way that an artifact was fitted for, as far as its endpoint lets it choose."""

from collections.abc import Sequence
from dataclasses import replace

from demur.calibration_store.artifact import Artifact, ArtifactRefused
from demur.uncertainty.generation import as_column
from demur.uncertainty.output import Output


class AskedDifferently(ValueError):
    """An endpoint refused a parameter in some rows and took it in others. One artifact cannot be fitted for both; fit
    when the endpoint keeps to one of them."""


def as_fitted(output: Output, artifact: Artifact, model: str) -> Output:
    """The output as this artifact may judge it: a row that was asked without a parameter with which the artifact was
    fitted cannot be read, and says so. `model` is the artifact's own, or one of its cascade."""
    if output.replies is None:
        return output
    fitted_without = artifact.left_out_of(model)
    missing = [replies.left_out - fitted_without for replies in output.replies.tolist()]
    if not any(missing):
        return output
    whys = output.why_unusable()
    return replace(
        output,
        unreadable=as_column(
            [why or _why(left_out, artifact) or None for why, left_out in zip(whys, missing, strict=True)]
        ),
    )


def check_asked_as_fitted(output: Output, artifact: Artifact, model: str) -> None:
    """Raise `ArtifactRefused` where some row was not."""
    for replies in () if output.replies is None else output.replies.tolist():
        if why := _why(replies.left_out - artifact.left_out_of(model), artifact):
            raise ArtifactRefused(why)


def check_same_way(artifact: Artifact, other: Artifact, model: str) -> None:
    """Raise `ArtifactRefused` where two artifacts, which are to judge the same replies, were fitted in two ways."""
    if one_sided := artifact.left_out_of(model) ^ other.left_out_of(model):
        raise ArtifactRefused(
            f"of artifacts {artifact.name} and {other.name} only one was fitted without {_named(one_sided)}, and one"
            " reply cannot be both; fit the older one again"
        )


def left_out_in(output: Output) -> frozenset[str]:
    """Parameters that the endpoint refused in all rows that could be read. Raises `AskedDifferently`."""
    if output.replies is None:
        return frozenset()
    readable = output.readable().tolist()
    ways = {replies.left_out for replies, yes in zip(output.replies.tolist(), readable, strict=True) if yes}
    if len(ways) > 1:
        differing = frozenset.union(*ways) - frozenset.intersection(*ways)
        raise AskedDifferently(
            f"the endpoint refused {_named(differing)} in some of the rows and took it in others; nothing can be fitted"
            " for both, so fit again once it keeps to one of them"
        )
    return ways.pop() if ways else frozenset()


def _why(left_out: frozenset[str], artifact: Artifact) -> str:
    if not left_out:
        return ""
    return (
        f"the endpoint refuses {_named(left_out)}, with which artifact {artifact.name} was fitted, so the reply is not"
        " one that it can judge; fit a new one with `demur fit`"
    )


def _named(parameters: Sequence[str] | frozenset[str]) -> str:
    return ", ".join(sorted(parameters))

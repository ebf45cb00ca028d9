"""The picture of a tournament, as SVG text: ratings by label, and the probability that each rating stands for."""

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from demur.audit.drawing import BLUE, GREY, ORANGE, STYLE, as_svg
from demur.uncertainty.checks import Array
from demur.uncertainty.isotonic import IsotonicMap


def rating_plot(
    ratings: dict[str, Array], *, to_probability: IsotonicMap | None = None, cut: float | None = None
) -> str:
    """Draw the ratings under each name; with a map and a cut, these as well."""
    everything = np.concatenate([values for values in ratings.values() if len(values)])
    edges = np.histogram_bin_edges(everything, bins=min(40, max(5, len(everything) // 10)))
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(5.2, 3.9), layout="constrained")
        if to_probability is None:
            counts = figure.subplots()
        else:
            above, counts = figure.subplots(2, 1, sharex=True, height_ratios=[2, 2])
            at = np.linspace(edges[0], edges[-1], 400)
            above.plot(at, to_probability.confidence(at), color=GREY, linewidth=1.6, label="probability")
            above.set(ylabel="probability", ylim=(-0.02, 1.02))
            above.yaxis.set_major_formatter(mpl.ticker.PercentFormatter(1))
            if cut is not None:
                above.axvline(cut, color=GREY, linestyle=":", linewidth=1)
                counts.axvline(cut, color=GREY, linestyle=":", linewidth=1, label="best cut")
        for (name, values), colour in zip(ratings.items(), (ORANGE, BLUE, GREY), strict=False):
            if len(values):
                counts.hist(values, bins=edges.tolist(), color=colour, alpha=0.6, label=name)
        counts.set(xlabel="rating", ylabel="rows")
        figure.legend(frameon=False, loc="outside upper left", ncols=5)
        return as_svg(figure)

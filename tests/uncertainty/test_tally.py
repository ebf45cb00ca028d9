import numpy as np
import pytest

from demur.uncertainty.tally import per_column, per_row


@pytest.mark.parametrize("shape", [(1, 1), (3, 255), (3, 256), (1000, 2), (255 * 64, 3), (255 * 64 * 2 + 17, 5)])
@pytest.mark.parametrize("density", [0.0, 0.5, 1.0])
def test_all_cells_are_counted(shape, density):
    cells = np.random.default_rng(0).random(shape) < density
    assert per_column(cells).tolist() == cells.sum(axis=0).tolist()
    assert per_row(cells).tolist() == cells.sum(axis=1).tolist()
    assert per_row(cells[::2]).tolist() == cells[::2].sum(axis=1).tolist()
    assert per_column(cells.T).tolist() == cells.sum(axis=1).tolist()

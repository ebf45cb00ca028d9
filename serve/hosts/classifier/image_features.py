"""What an image model is given: pictures as its own image processor makes them."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from demur.serve.config.checkpoint_facts import BadCheckpoint
from demur.serve.contract.inputs import InputSpec, Pixels
from demur.serve.hosts.pixels import Floats, as_floats

Images = Sequence[Pixels] | NDArray[Any]
"""Of several sizes, or stacked."""

Features = dict[str, torch.Tensor]

PIXELS_AT_A_TIME = 2**22
"""Before and after it was resized. The processor holds several copies of what it is given, as floating point."""


class ImageFeatures:
    """An image processor. What it makes of a picture does not depend on the other pictures of a batch."""

    def __init__(self, processor: Any, spec: InputSpec) -> None:
        self._processor, self._spec = processor, spec
        self._size = spec.height, spec.width
        self._scaling = self._only_scaling()

    def of(self, images: Images) -> Features:
        """Return what the model is given about each picture, in their order."""
        exact = [at for at, image in enumerate(images) if image.shape[1:] == self._size]
        if len(exact) == len(images):
            return self._scaled(images)
        others = list(self._groups(images))
        made = [self._processed([as_floats(images[at]) for at in group], as_is=False) for group in others]
        if exact:
            made.append(self._scaled([images[at] for at in exact]))
        order = np.argsort([at for group in (*others, exact) for at in group])
        return {name: torch.cat([part[name] for part in made])[order] for name in made[0]}

    def _scaled(self, images: Images) -> Features:
        """Pictures that have the model's size already."""
        floats = as_floats(images) if isinstance(images, np.ndarray) else np.stack([as_floats(one) for one in images])
        if self._scaling is None:
            return self._processed(list(floats), as_is=True)
        mean, std = self._scaling
        return {"pixel_values": torch.from_numpy((floats - mean) / std)}

    def _groups(self, images: Images) -> Iterator[list[int]]:
        """Positions of pictures of another size, in groups that take a bounded room while they are resized."""
        group: list[int] = []
        pixels = 0
        for at, image in enumerate(images):
            height, width = image.shape[1:]
            if (height, width) == self._size:
                continue
            oblong = max(height, width) / max(1, min(height, width))
            here = int(max(height * width, self._spec.height * self._spec.width * oblong))
            if group and pixels + here > PIXELS_AT_A_TIME:
                yield group
                group, pixels = [], 0
            group.append(at)
            pixels += here
        yield group

    def _processed(self, images: Sequence[Floats], *, as_is: bool) -> Features:
        """What the image processor makes of them; `as_is` where they have their size already."""
        not_at_all = {"do_resize": False, "do_center_crop": False} if as_is else {}
        encoded: Features = self._processor(
            images=list(images),
            do_rescale=False,  # pixels are in [0, 1] already
            input_data_format="channels_first",
            return_tensors="pt",
            **not_at_all,
        )
        return encoded

    def _only_scaling(self) -> tuple[Floats, Floats] | None:
        """Mean and standard deviation of each channel, where scaling by them is all that the processor does to an image
        of the right size: it takes images one by one, and most of a small model's time. None where it does more."""
        spec, processor = self._spec, self._processor
        shape = (spec.channels, 1, 1)
        mean, std = np.zeros(shape, np.float32), np.ones(shape, np.float32)
        if getattr(processor, "do_normalize", False):
            mean += np.asarray(processor.image_mean, np.float32).reshape(-1, 1, 1)
            std *= np.asarray(processor.image_std, np.float32).reshape(-1, 1, 1)
        size = spec.channels * spec.height * spec.width
        trial = [np.linspace(0, 1, size, dtype=np.float32).reshape(spec.channels, spec.height, spec.width)] * 2
        made = self._processed(trial, as_is=True)
        scaled = torch.from_numpy((np.stack(trial) - mean) / std)
        same = set(made) == {"pixel_values"} and made["pixel_values"].shape == scaled.shape
        return (mean, std) if same and torch.allclose(made["pixel_values"], scaled, rtol=0, atol=1e-6) else None


def check_scale(processor: Any, folder: Path) -> None:
    """Raise `BadCheckpoint` for a model whose 8-bit pixels are not divided by 255: what it is given are pixels in
    [0, 1], and it was trained on something else."""
    if (
        not getattr(processor, "do_rescale", True)
        or abs(getattr(processor, "rescale_factor", 1 / 255) * 255 - 1) > 1e-6
    ):
        raise BadCheckpoint(
            f"{folder}: its image processor does not scale pixels to [0, 1], which is all that is supported"
        )

"""Train the quickstart's model, a small vision transformer, and write it in ordinary checkpoint format.

    python deploy/models/digits/train.py [FOLDER]       (the folder of this script by default)

Runs in about two minutes on one core and gives the same weights every time on the same machine. Prints how it does
on each part; only the train part is learnt from.
"""

import math
import sys
import time
from pathlib import Path

import numpy as np
import torch
from parts import parts
from rich.progress import Progress
from torch.nn import functional
from transformers import ViTConfig, ViTForImageClassification
from transformers.models.vit.image_processing_pil_vit import ViTImageProcessorPil

EPOCHS = 500
BATCH = 64
LEARNING_RATE = 4e-3
SEED = 0

CONFIG = {
    "image_size": 8,
    "patch_size": 4,
    "num_channels": 1,
    "hidden_size": 64,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 128,
    "hidden_dropout_prob": 0.1,
    "attention_probs_dropout_prob": 0.1,
    "initializer_range": 0.1,  # the usual 0.02 is meant for layers ten times as wide
    "id2label": {i: str(i) for i in range(10)},
    "label2id": {str(i): i for i in range(10)},
}
SHIFT, SCALE, TURN_DEGREES = 0.25, 0.1, 12
"""Augmentation: half-pixel shifts, 10% in size, small turns, as different hands would write."""


def augmented(images: torch.Tensor, rng: torch.Generator) -> torch.Tensor:
    def between(low: float, high: float, *shape: int) -> torch.Tensor:
        return low + (high - low) * torch.rand(*shape, generator=rng)

    n = len(images)
    angle = torch.deg2rad(between(-TURN_DEGREES, TURN_DEGREES, n))
    scale = between(1 - SCALE, 1 + SCALE, n)
    shift = between(-SHIFT, SHIFT, n, 2)
    rows = [
        torch.stack([torch.cos(angle) / scale, -torch.sin(angle) / scale, shift[:, 0]], dim=1),
        torch.stack([torch.sin(angle) / scale, torch.cos(angle) / scale, shift[:, 1]], dim=1),
    ]
    grid = functional.affine_grid(torch.stack(rows, dim=1), list(images.shape), align_corners=False)
    return functional.grid_sample(images, grid, align_corners=False)


def as_input(images: np.ndarray) -> torch.Tensor:
    return torch.tensor(images, dtype=torch.float32).unsqueeze(1)


def normalised(images: torch.Tensor) -> torch.Tensor:
    return (images - 0.5) / 0.5


def train(images: torch.Tensor, labels: torch.Tensor) -> ViTForImageClassification:
    torch.manual_seed(SEED)
    rng = torch.Generator().manual_seed(SEED)
    model = ViTForImageClassification(ViTConfig(**CONFIG)).train()
    optimiser = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE, weight_decay=0.05)
    steps = EPOCHS * math.ceil(len(images) / BATCH)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, LEARNING_RATE, total_steps=steps)
    with Progress() as bar:
        task = bar.add_task("training", total=EPOCHS)
        for _ in range(EPOCHS):
            for rows in torch.randperm(len(images), generator=rng).split(BATCH):
                logits = model(pixel_values=normalised(augmented(images[rows], rng))).logits
                loss = functional.cross_entropy(logits, labels[rows])
                optimiser.zero_grad()
                loss.backward()
                optimiser.step()
                schedule.step()
            bar.advance(task)
    return model.eval()


def main(folder: Path) -> None:
    torch.set_num_threads(1)  # threads would add up in another order
    found = parts()
    images, labels = found["train"]
    started = time.monotonic()
    model = train(as_input(images), torch.tensor(labels))
    print(f"trained {sum(p.numel() for p in model.parameters()):,} parameters in {time.monotonic() - started:.0f} s")
    for name, (x, y) in found.items():
        with torch.inference_mode():
            predicted = model(pixel_values=normalised(as_input(x))).logits.argmax(dim=1).numpy()
        print(f"{name}: {(predicted == y).mean():.4f} of {len(y)} right")
    model.save_pretrained(folder)
    processor = ViTImageProcessorPil(
        size={"height": 8, "width": 8}, do_normalize=True, image_mean=[0.5], image_std=[0.5]
    )
    processor.save_pretrained(folder)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)

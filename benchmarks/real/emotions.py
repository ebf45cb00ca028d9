"""Option logits of ten language models on texts that express one of four emotions, and one model's several prompts."""

from pathlib import Path

import numpy as np
from scipy.special import softmax

from benchmarks.real.predictions import Predictions, Source, numbered, one_label
from demur.uncertainty.checks import Array

SETTINGS = (
    "Qwen-14B_task_icl1",
    "Qwen-7B_task_icl1",
    "Qwen-1_8B_base_icl1",  # the only one of this model
    "Mistral-7B-v0.1_task_icl1",
    "Llama-2-13b-hf_task_icl1",
    "Llama-2-7b-hf_task_icl1",
    "Yi-6B_task_icl1",
    "deepseek-llm-7b-base_task_icl1",
    "internlm-7b_task_icl1",
    "falcon-7b_task_icl1",
)
ENSEMBLES = {
    "Qwen-14B": ("task_icl1", "shared_icl1", "base_icl1", "task_icl0"),
    "Qwen-7B": ("task_icl1", "base_icl0"),
}
SHOWN_AS_EXAMPLES = (1, 3, 5, 7, 9)
REFUSALS = (4, 5)


def read(folder: Path) -> list[Predictions]:
    with np.load(folder / "logits.npz") as arrays:
        seen = np.isin(arrays["ids"], SHOWN_AS_EXAMPLES)
        classes, groups = arrays["labels"][~seen].astype(np.intp), numbered(arrays["ids"][~seen])

        def probabilities(setting: str) -> Array:
            return np.asarray(softmax(arrays[setting][~seen].astype(np.float64), axis=1))

        def predictions(model: str, p: Array, passes: Array | None = None) -> Predictions:
            return Predictions(
                model=model,
                rows=one_label(p, classes, mc_probabilities=passes),
                groups=groups,
                refusals=REFUSALS,
                left_out=int(seen.sum()),
            )

        read = [predictions(name.split("_task")[0].split("_base")[0], probabilities(name)) for name in SETTINGS]
        for model, prompts in ENSEMBLES.items():
            passes = np.stack([probabilities(f"{model}_{prompt}") for prompt in prompts], axis=1)
            read.append(predictions(f"{model}, mean of {len(prompts)} prompts", passes.mean(axis=1), passes))
        return read


SOURCE = Source(
    name="emotions",
    folder="emotion_llm_logits",
    files=("logits.npz",),
    origin="colts661/LLM-Uncertainty-Bench @ cfc8c3f",
    licence="none stated (adapted from smartyfh/LLM-Uncertainty-Bench, MIT)",
    group="text (each is there once)",
    treatment="softmax of six logits; the texts shown as examples in the prompts left out",
    read=read,
)

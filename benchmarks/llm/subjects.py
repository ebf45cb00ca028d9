"""What is measured on: the sums model in vLLM, held-out exercises, and selectors fitted to its replies."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from demur.policies.selector import Selector
from demur.policies.selector_recipe import FitSplit
from demur.serve.config.file import ModelConfig
from demur.serve.contract.engine import Engine
from demur.serve.contract.inputs import InputLimits, ModelInput
from demur.serve.contract.model import ModelRequest
from demur.serve.contract.reading.inputs import read_input
from demur.serve.fitting.labelled_rows import truth_about, truth_of
from demur.serve.hosts.language.model import LanguageModel
from demur.traffic.dataset import LabelledFile
from demur.uncertainty.output import LabelledOutput
from deploy.models.sums.parts import parts

CHECKPOINT = Path(__file__).parents[2] / "deploy/models/sums"

ENGINE: dict[str, Any] = {"max_model_len": 512, "max_num_seqs": 64}
"""Beside what demur sets on a CPU; the bare engine is the same one, or is given the same."""

LIMITS = InputLimits(text_characters=10_000, image_pixels=1)
MAX_TOKENS = 64
FITTED_ON = 200

OF_LOGPROBS = (
    *("g_nll", "avg_neg_logprob", "max_neg_logprob", "perplexity"),
    *("improbability", "avg_token_prob", "sequence_confidence"),
)
"""Every score that reads the log-probabilities of the tokens that were written, and nothing else."""

GENERATE = {"kind": "generate", "match": "number"}
CHOICE = {"kind": "choice", "labels": ["A", "B", "C", "D"]}
BINARY = {"kind": "binary", "labels": ["no", "yes"]}


def configured(*scores: str, task: dict[str, Any], **settings: Any) -> dict[str, Any]:
    """The settings of a model in vLLM whose confidence is that of the first score."""
    prompts = {"choice": "choice.jinja", "binary": "claim.jinja"}
    if task["kind"] in prompts:
        settings["prompt"] = {
            "template": str(CHECKPOINT / "prompts" / prompts[task["kind"]]),
            **settings.get("prompt", {}),
        }
    return {
        "task": task,
        "host": {"kind": "vllm", "checkpoint": str(CHECKPOINT), "max_tokens": MAX_TOKENS, "engine": ENGINE},
        "scores": list(scores),
        "confidence": {"score": scores[0], "calibrator": "isotonic"},
        "policy": {"kind": "rejection_rate", "rate": 0.1},
        **settings,
    }


def exercises(task: str) -> LabelledFile:
    """Held-out exercises of one of the shapes that the model was taught."""
    rows = parts(task)["calibration"]
    return LabelledFile(
        path=Path(f"{task}.jsonl"),
        sha256="",
        inputs=[row["input"] for row in rows],
        labels=[row["label"] for row in rows],
        groups=[row["group"] for row in rows],
    )


def read(rows: LabelledFile, model: LanguageModel) -> list[ModelInput]:
    return [read_input(value, model.spec, LIMITS) for value in rows.inputs]


async def fitted(config: ModelConfig, engine: Engine, rows: LabelledFile) -> tuple[LanguageModel, Selector]:
    """A language model, and what judges it: fitted to as many rows as give it something to do, and no promise."""
    model = LanguageModel(config, engine)
    few = LabelledFile(
        path=rows.path,
        sha256="",
        inputs=rows.inputs[:FITTED_ON],
        labels=rows.labels[:FITTED_ON],
        groups=rows.groups[:FITTED_ON],
    )
    output = await model.run(ModelRequest(inputs=read(few, model), needs=config.recipe.needs))
    truth = truth_about(output, few, truth_of(few, config.task), config.task)
    labelled = LabelledOutput(output=output, truth=truth, exclusive=config.task.exclusive)
    return model, config.recipe.fit(FitSplit(statistics=labelled, mixing=labelled, calibration=labelled, rule=labelled))


def markdown(columns: Sequence[str], rows: Sequence[Sequence[str]], *, left: int = 1) -> str:
    """A table whose first columns, as many as `left`, hold words, and the others numbers."""
    rule = ["---" if at < left else "---:" for at in range(len(columns))]
    return "\n".join(f"| {' | '.join(line)} |" for line in (columns, rule, *rows))

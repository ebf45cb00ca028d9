"""What can be sent to the models that are served: for the page to try them, and for the examples of /docs."""

import asyncio
import logging
from collections.abc import Mapping
from typing import Any

from demur.serve.contract.examples import Example, plain_example, shown_examples
from demur.serve.contract.hosts import ModelNotReady, UnknownModel
from demur.serve.contract.inputs import InputSpec
from demur.serve.gateway.handler import Handler
from demur.traffic.table_file import BadDataFile

log = logging.getLogger("demur.gateway")

MOST = 12
"""Examples of one model."""


class ModelExamples:
    """Reads the examples of each model once, and asks each host once what it takes."""

    def __init__(self, handler: Handler) -> None:
        self._handler = handler
        self._read: dict[str, list[Example]] = {}

    async def shown(self, model: str) -> list[Example]:
        """Return the rows that the configuration lets people see; nothing where their file cannot be read, which the
        log says."""
        if model not in self._read:
            self._read[model] = await asyncio.to_thread(self._read_file, model)
        return self._read[model]

    async def spec(self, model: str) -> InputSpec | None:
        """Return what a model takes; None while it does not serve."""
        try:
            return await self._handler.model(model).spec()
        except (ModelNotReady, UnknownModel):
            return None

    async def bodies(self) -> Mapping[str, Any]:
        """Return, by operation, what can be sent about the first model that serves."""
        for model in self._handler.config.models:
            if (spec := await self.spec(model)) is not None:
                return _bodies(model, await self._one(model, spec), self._handler.config.models[model].task.labels)
        return {}

    async def _one(self, model: str, spec: InputSpec) -> dict[str, Any]:
        examples = await self.shown(model)
        return examples[0].body if examples else {"input": plain_example(spec)}

    def _read_file(self, model: str) -> list[Example]:
        try:
            return shown_examples(self._handler.config.models[model], most=MOST)
        except BadDataFile as error:
            log.warning("the examples of model %s are not shown: %s", model, error)
            return []


def _bodies(model: str, brings: Mapping[str, Any], labels: Any) -> dict[str, Any]:
    item = {"model": model, **brings}
    label = labels[0] if labels else "right"
    return {
        "POST /v1/predict": item,
        "POST /v1/predict/batch": {"items": [item, item]},
        "POST /v1/predictions/{id}/outcome": {"label": label, "source": "a test"},
    }

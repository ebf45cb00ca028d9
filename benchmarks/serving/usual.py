"""The usual way to serve a classifier with Ray Serve: a FastAPI ingress, and `@serve.batch` around the model.

No scores, no calibration, no record.
"""

from typing import Any

import numpy as np
from fastapi import FastAPI
from pydantic import BaseModel
from ray import serve as ray_serve
from ray.serve import Application
from ray.serve.handle import DeploymentHandle

from demur.serve.config.file import ModelConfig

api = FastAPI()


class Asked(BaseModel):
    input: Any


class Answered(BaseModel):
    prediction: str
    probability: float


class UsualModel:
    def __init__(self, model: ModelConfig) -> None:
        from demur.serve.hosts.classifier.model import Classifier

        self._classifier = Classifier(model.host, model.task)  # type: ignore[arg-type]
        self._labels = model.task.labels

    @ray_serve.batch(max_batch_size=64)  # type: ignore[untyped-decorator]  # and Serve's own waiting time, 10 ms
    async def predict(self, inputs: list[Any]) -> list[tuple[str, float]]:
        taken = [value if isinstance(value, str) else np.asarray([value], dtype=np.float32) for value in inputs]
        probabilities = self._classifier.run(taken, frozenset()).probabilities
        best = probabilities.argmax(axis=1)
        return [(self._labels[i], float(row[i])) for i, row in zip(best, probabilities, strict=True)]


@ray_serve.ingress(api)
class UsualIngress:
    def __init__(self, model: DeploymentHandle) -> None:
        self._model = model

    @api.post("/predict")
    async def predict(self, asked: Asked) -> Answered:
        label, probability = await self._model.predict.remote(asked.input)
        return Answered(prediction=label, probability=probability)

    @api.post("/predict/batch")
    async def predict_batch(self, asked: list[Asked]) -> list[Answered]:
        import asyncio

        answers = await asyncio.gather(*(self._model.predict.remote(one.input) for one in asked))
        return [Answered(prediction=label, probability=probability) for label, probability in answers]


def usual(model: ModelConfig) -> Application:
    host = ray_serve.deployment(UsualModel, ray_actor_options={"num_cpus": 1}, max_ongoing_requests=1000).bind(model)
    return ray_serve.deployment(UsualIngress, ray_actor_options={"num_cpus": 0.5}, max_ongoing_requests=1000).bind(host)

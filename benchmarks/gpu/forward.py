"""The forward pass of encoders by size, numbers and batch, with and without a compiler; and what transfers take."""

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from transformers import BertConfig, BertForSequenceClassification

from benchmarks.gpu.plan import COMPILED, GRAPH, Plan, Results, in_short, timed
from benchmarks.serving.models import LABELS, WORDS, Shape
from demur.serve.hosts.classifier.loading import compiled, device_of

Inputs = dict[str, torch.Tensor]
Run = Callable[[Inputs], torch.Tensor]


def network(shape: Shape, dtype: str, device: str) -> Any:
    """Return an encoder of random weights on a device."""
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=WORDS, hidden_size=shape.dimensions, num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads, intermediate_size=4 * shape.dimensions, num_labels=len(LABELS),
        max_position_embeddings=128,
    )  # fmt: skip
    return BertForSequenceClassification(config).to(device_of(device), getattr(torch, dtype)).eval()


def inputs(batch: int, tokens: int, device: str) -> Inputs:
    """Return tokens drawn at random, none of them padding."""
    ids = torch.randint(5, WORDS, (batch, tokens), device=device)
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids)}


def forward(plan: Plan, tick: Callable[[], None]) -> Results:
    """Measure each size, type of numbers, batch and way."""
    columns = (
        "parameters, millions",
        "numbers",
        "batch",
        "way",
        "first, s",
        "ms a batch",
        "rows/s",
        "MiB of GPU memory",
    )
    table = Results(f"Forward passes, {plan.tokens} tokens a text", columns, words=0)
    for shape in plan.shapes:
        for dtype in plan.dtypes:
            module = network(shape, dtype, plan.device)
            millions = sum(parameter.numel() for parameter in module.parameters()) / 1e6
            for batch in plan.batches:
                for way in plan.ways:
                    table.rows.append([millions, dtype, batch, way, *_measured(plan, module, way, batch)])
                tick()
            del module
            torch._dynamo.reset()
            if plan.is_gpu:
                torch.cuda.empty_cache()
    return table


def _measured(plan: Plan, module: Any, way: str, batch: int) -> list[Any]:
    given = inputs(batch, plan.tokens, plan.device)
    if plan.is_gpu:
        torch.cuda.reset_peak_memory_stats()
    try:
        with torch.inference_mode():
            began = time.perf_counter()
            run = runner(module, way, given)
            run(given).cpu()
            first = time.perf_counter() - began
            milliseconds = timed(lambda: run(given), plan)
    except Exception as error:  # of the compiler, of a capture, of memory: the other rows are of use without it
        return [None, in_short(error), None, None]
    memory = torch.cuda.max_memory_allocated() / 2**20 if plan.is_gpu else None
    return [first, milliseconds, batch / milliseconds * 1000, memory]


def runner(module: Any, way: str, given: Inputs) -> Run:
    """Return the forward pass in one of the ways. Hosts compile in the same way. A CUDA graph takes one size."""
    if way == COMPILED:
        fast = compiled(module)
        return lambda some: fast(**some).logits
    if way == GRAPH:
        return _captured(module, given)
    return lambda some: module(**some).logits


def _captured(module: Any, given: Inputs) -> Run:
    kept = {name: tensor.clone() for name, tensor in given.items()}
    aside = torch.cuda.Stream()
    aside.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(aside):
        for _ in range(3):
            module(**kept)
    torch.cuda.current_stream().wait_stream(aside)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        logits = module(**kept).logits

    def run(some: Inputs) -> torch.Tensor:
        for name, tensor in some.items():
            kept[name].copy_(tensor)
        graph.replay()
        return logits

    return run


def transfers(plan: Plan, tick: Callable[[], None]) -> Results:
    """Measure what goes to the device and comes back for a batch, in parts and in one."""
    table = Results("Transfers of a batch", ("what", "batch", "KiB", "ms"), words=1)
    if not plan.is_gpu:
        table.notes.append("On a CPU nothing is transferred; these rows only show that the command runs.")
    width, labels = plan.encoder.dimensions, len(LABELS)
    for batch in plan.batches:
        logits = torch.randn(batch, labels, device=plan.device)
        embedding = torch.randn(batch, width, device=plan.device)
        passes = torch.randn(batch, plan.passes * labels, device=plan.device)
        score = torch.randn(batch, 1, device=plan.device, dtype=torch.float64)
        ids = torch.randint(5, WORDS, (batch, plan.tokens))
        pinned = ids.pin_memory() if plan.is_gpu else ids
        work: dict[str, tuple[tuple[torch.Tensor, ...], Callable[[], Any]]] = {
            "token ids to the device": ((ids,), partial(ids.to, plan.device)),
            "token ids, pinned": ((ids,), partial(pinned.to, plan.device, non_blocking=True)),
            "logits": ((logits,), logits.cpu),
            "logits and a score made there, in one": ((logits, score), partial(_in_one, logits, score)),
            "logits, embedding, each by itself": ((logits, embedding), partial(_each, logits, embedding)),
            "logits and embedding, in one": ((logits, embedding), partial(_in_one, logits, embedding)),
            "logits and passes, in one": ((logits, passes), partial(_in_one, logits, passes)),
        }
        for name, (tensors, transfer) in work.items():
            size = sum(one.numel() * one.element_size() for one in tensors) / 1024
            table.rows.append([name, batch, size, timed(transfer, plan, seconds=plan.seconds / 4)])
        tick()
    return table


def _in_one(*tensors: torch.Tensor) -> torch.Tensor:
    return torch.cat(tensors, dim=1).cpu()


def _each(*tensors: torch.Tensor) -> list[torch.Tensor]:
    return [tensor.cpu() for tensor in tensors]

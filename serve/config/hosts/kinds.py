"""Every kind of host, as `host.kind` chooses it."""

from typing import Annotated

from pydantic import Field

from demur.serve.config.hosts.classifier import ClassifierHost
from demur.serve.config.hosts.endpoint import OpenAIHost
from demur.serve.config.hosts.given import GivenHost
from demur.serve.config.hosts.language import TransformersHost, VllmHost
from demur.serve.config.hosts.onnx import OnnxHost
from demur.serve.config.hosts.python import PythonHost
from demur.serve.config.hosts.remote import RemoteHost
from demur.serve.config.hosts.tabular import LightgbmHost, SklearnHost, XgboostHost

AnyLanguageHost = TransformersHost | VllmHost | OpenAIHost

HostConfig = Annotated[
    ClassifierHost
    | PythonHost
    | SklearnHost
    | XgboostHost
    | LightgbmHost
    | OnnxHost
    | GivenHost
    | RemoteHost
    | TransformersHost
    | VllmHost
    | OpenAIHost,
    Field(discriminator="kind"),
]

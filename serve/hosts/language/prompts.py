"""How a language model is asked: Jinja templates in files, rendered to messages, and the fingerprint of them all."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jinja2 import StrictUndefined, Template, TemplateError, TemplateSyntaxError, nodes
from jinja2.sandbox import ImmutableSandboxedEnvironment

from demur.serve.contract.messages import Message
from demur.traffic.text_file import NotText, read_text

if TYPE_CHECKING:
    from demur.serve.config.file import ModelConfig

TEMPLATES = Path(__file__).parent / "templates"

OWN_TEMPLATES = {
    "binary": "labels.jinja",
    "multiclass": "labels.jinja",
    "choice": "choice.jinja",
    "multilabel": "multilabel.jinja",
}
"""What a task is asked with where the configuration names nothing else. `generate` passes on conversations."""

BLOCKS = ("system", "user", "assistant")

Variables = Mapping[str, Any]


class BadPrompt(ValueError):
    """A template cannot be used. The message names the file and, where it is known, the line."""


@dataclass(frozen=True, kw_only=True)
class Option:
    """One option of a question, as a template sees it."""

    letter: str
    text: str


def _environment() -> ImmutableSandboxedEnvironment:
    """Texts go into prompts as they are, so nothing is escaped; what a template does not know is an error."""
    environment = ImmutableSandboxedEnvironment(
        autoescape=False, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["json"] = lambda value: json.dumps(value, ensure_ascii=False)
    return environment


ENVIRONMENT = _environment()


class Prompt:
    """One template file, each of whose blocks becomes a message: `system`, `user`, and `assistant` for the replies of
    labelled examples. Blanks around a message are cut off; a system message that is empty is left out."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self.source = read_text(path)
            self._template: Template = ENVIRONMENT.from_string(self.source)
        except NotText as error:
            raise BadPrompt(f"{error}; name a Jinja template") from None
        except TemplateSyntaxError as error:
            raise BadPrompt(f"{path}, line {error.lineno}: {error.message}") from None
        parsed = ENVIRONMENT.parse(self.source)
        if any(parsed.find(kind) for kind in (nodes.Extends, nodes.Include, nodes.Import, nodes.FromImport)):
            raise BadPrompt(f"{path} builds on another file; write all of it into one")
        if "user" not in self._template.blocks:
            raise BadPrompt(f"{path} has no block `user`; write {{% block user %}}...{{% endblock %}}")
        if strange := sorted(set(self._template.blocks) - set(BLOCKS)):
            raise BadPrompt(f"{path} has a block {strange[0]!r}; there are: {', '.join(BLOCKS)}")

    def text(self, block: str, variables: Variables) -> str | None:
        """What a block says; None where the template does not have it. Raises `BadPrompt`."""
        written = self._template.blocks.get(block)
        if written is None:
            return None
        try:
            return "".join(written(self._template.new_context(dict(variables)))).strip()
        except (TemplateError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            raise BadPrompt(f"{self.path}, block {block}: {error}") from None

    def messages(self, variables: Variables, examples: Sequence[Variables] = ()) -> tuple[Message, ...]:
        """The system message, the turns of the examples, and what is asked."""
        if examples and "assistant" not in self._template.blocks:
            raise BadPrompt(f"{self.path} has no block `assistant`, which says how the answer of an example is written")
        said = [("system", self.text("system", variables))]
        for example in examples:
            said += [("user", self.text("user", example)), ("assistant", self.text("assistant", example))]
        said.append(("user", self.text("user", variables)))
        return tuple({"role": role, "content": content or ""} for role, content in said if content or role != "system")


class Prompts:
    """Every template that a configured model may be asked with. Raises `BadPrompt` where one cannot be used."""

    def __init__(self, model: "ModelConfig") -> None:
        task, prompt = model.task, model.prompt
        own = OWN_TEMPLATES.get(task.kind)
        self.main = Prompt(prompt.template or TEMPLATES / own) if own else None
        """None where a conversation is passed on as it is."""

        self.mapping = Prompt(prompt.mapping_template or TEMPLATES / "mapping.jinja")
        self.rating = Prompt(prompt.rating_template or TEMPLATES / "rating.jinja")
        self.stated = Prompt(TEMPLATES / "stated.jinja")
        self._pair = Prompt(prompt.pair_template or TEMPLATES / "pair.jinja")
        self._labels = task.labels
        self._kind = task.kind
        self._compares = getattr(model.host, "tournament", None) is not None

    @property
    def in_use(self) -> list[Prompt]:
        """Those that the model can be asked with, whatever scores are configured."""
        if self._compares:
            return [self._pair]
        if self.main is None:
            return [self.rating]
        return [self.main, self.rating, self.stated, *([self.mapping] if self._kind == "choice" else [])]

    def pair(self, first: str, second: str) -> tuple[Message, ...]:
        """Ask which of two inputs is more surely the positive label's, A or B."""
        return self._pair.messages(
            {"first": first, "second": second, "negative": self._labels[0], "positive": self._labels[-1]}
        )

    def try_out(self) -> None:
        """Raise `BadPrompt` where a template other than the main one asks for what it is not told."""
        options = [Option(letter="A", text="an option"), Option(letter="B", text="another")]
        self.mapping.messages({"question": "a question", "options": options, "reply": "a reply"})
        self.rating.messages({"question": "a question", "answer": "an answer"})
        self.pair("one input", "another")


def prompt_fingerprint(model: "ModelConfig") -> str:
    """SHA-256 over everything that settles what the model is asked, and how its reply is read."""
    prompt, few_shot = model.prompt, model.prompt.few_shot
    settings = prompt.model_dump(mode="json", include={"probabilities", "constrained", "shuffle", "reply"})
    examples: dict[str, Any] | None = None
    if few_shot:
        from demur.serve.hosts.language.few_shot import embedding_fingerprint

        file = few_shot.examples
        examples = {
            "k": few_shot.k,
            "embedding": embedding_fingerprint(few_shot.embedding),
            "examples": _of_file(file) if isinstance(file, Path) else file,
        }
    templates = [one.source for one in Prompts(model).in_use]
    asked = [templates, settings, examples, model.task.kind, model.task.match, list(model.task.labels)]
    return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()


def _of_file(path: Path) -> str:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise BadPrompt(f"few_shot.examples: {path} cannot be read ({error.strerror})") from None

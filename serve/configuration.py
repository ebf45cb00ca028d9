"""Read a configuration file and check all of it."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from demur.serve.config.complaint import mistakes_of
from demur.serve.config.document import Document, read_document
from demur.serve.config.file import DATA, SETTINGS_OF_PARTS, BadConfig, Config, ModelConfig, with_absolute_paths
from demur.serve.config.known_keys import KnownKeys
from demur.serve.config.mistake import Mistake, in_order
from demur.serve.config.yaml_trouble import NotYaml
from demur.serve.hosts.language.forms import check_prompts
from demur.serve.hosts.language.prompts import BadPrompt


@dataclass(frozen=True, kw_only=True)
class ConfigFile:
    """A configuration, and the file that it was read from."""

    config: Config
    document: Document


def load_config(path: Path) -> Config:
    """Read and check a file. Relative paths in it are relative to the working directory."""
    return read_config(path).config


def read_config(path: Path) -> ConfigFile:
    """Read a configuration file, with the place of everything in it. Raises `BadConfig` with all that is wrong."""
    if not path.exists():
        raise BadConfig(f"there is no configuration file {path}")
    try:
        document = read_document(path)
    except NotYaml as error:
        raise BadConfig(str(error)) from None
    if not isinstance(document.content, dict):
        raise BadConfig(f"{path} is no configuration: it has no keys with values, such as `models:`")
    mistakes = list(document.mistakes)
    try:
        config = Config.model_validate(document.content)
    except ValidationError as error:
        keys = KnownKeys(Config, SETTINGS_OF_PARTS)
        mistakes += mistakes_of(error, document, keys, again=Config.model_validate)
    else:
        config = with_absolute_paths(config, Path.cwd())
        mistakes += [one for name, model in config.models.items() for one in _prompt_mistakes(document, name, model)]
    if mistakes:
        raise BadConfig.of(path, in_order(mistakes))
    check_kept(config, Path.cwd(), named="artifacts" in document.content)
    return ConfigFile(config=config, document=document)


def check_kept(config: Config, base: Path, *, named: bool) -> None:
    """Raise `BadConfig` where artifacts lie in the folder in which they were kept before `data` moved them as well:
    nobody shall lose them without a word."""
    if named or config.data == (base / DATA).resolve():
        return
    before = [name for name in config.models if (base / DATA / "artifacts" / name).is_dir()]
    if before and not Path(config.artifacts).exists():
        raise BadConfig(
            f"artifacts: they now lie in {config.artifacts} unless they are named, and those of {', '.join(before)} are"
            f" in {DATA / 'artifacts'}, where they were kept before; move them (mv {DATA / 'artifacts'}"
            f" {config.artifacts}), or write `artifacts: {DATA / 'artifacts'}`"
        )


def _prompt_mistakes(document: Document, name: str, model: ModelConfig) -> Iterator[Mistake]:
    """What is wrong with what a prompt is made of: it must be there, and can be asked."""
    if not model.host.is_language:
        return
    place = ("models", name, "prompt")
    try:
        check_prompts(model)
    except BadPrompt as error:
        yield document.mistake(place, str(error))
    few_shot = model.prompt.few_shot
    if few_shot and isinstance(few_shot.examples, Path) and not few_shot.examples.is_file():
        yield document.mistake((*place, "few_shot", "examples"), f"there is no file {few_shot.examples}")

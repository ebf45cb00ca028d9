"""Nothing that is read is run: no pickle, no template from data, no shell, no code from a file."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FOLDERS = (
    "uncertainty",
    "policies",
    "calibration_store",
    "traffic",
    "review",
    "audit",
    "client",
    "library",
    "serve",
    "deploy",
    "locks",
)

UNPICKLES = {"pickle", "cPickle", "cloudpickle", "dill", "joblib", "marshal", "shelve", "jsonpickle"}
RUNS = {"eval", "exec", "compile", "__import__"}
FORBIDDEN = {
    "yaml.load", "yaml.unsafe_load", "yaml.full_load", "yaml.load_all", "os.system", "os.popen", "tempfile.mktemp",
    "ElementTree.parse", "ElementTree.fromstring", "ElementTree.XML", "pandas.read_pickle", "pd.read_pickle",
    "torch.jit.load", "types.FunctionType", "code.interact",
}  # fmt: skip

IMPORTS_BY_NAME = {
    "serve/local/worker_source.py": "lists of our own and Ray's modules, in that file and in serve/hosts/libraries.py",
    "serve/contract/user_code.py": "the function that the configuration names; no request says anything about it",
}
"""Where a module is imported by a name that is no constant, and who chooses it."""

UNPICKLED = {
    "serve/deployments/socket_frames.py": "calls between processes of one service, which look who is at the other end",
    "serve/hosts/tabular/sklearn_file.py": "a model's file, only where the operator writes `trust: true`",
    "serve/hosts/tabular/sklearn_model.py": "joblib counts threads here, and reads nothing",
}
"""Where a library that can unpickle is used, and what keeps that from strangers."""

TEMPLATES = {
    "serve/commands/starting/first_config.py": "demur's own templates; they write a file of YAML, which is no page",
    "serve/hosts/remote/request_body.py": "the operator's template of a request, in a sandbox; it writes JSON",
    "serve/hosts/language/prompts.py": "the operator's prompt files, in a sandbox; a model reads what comes out",
}
"""Where a template is made of a text that is no constant, or does not escape."""


def complaints(tree: ast.AST) -> Iterator[str]:
    """What is wrong with one file, each with its line."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for name in node.names:
                if name.name.split(".")[0] in UNPICKLES:
                    yield f"{node.lineno}: unpickles ({name.name})"
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in UNPICKLES:
            yield f"{node.lineno}: unpickles ({node.module})"
        if isinstance(node, ast.Call):
            yield from _about_call(node)


def _about_call(call: ast.Call) -> Iterator[str]:
    name = ast.unparse(call.func)
    settings = {keyword.arg: ast.unparse(keyword.value) for keyword in call.keywords}
    constant = bool(call.args) and isinstance(call.args[0], ast.Constant)
    if name in RUNS or name in FORBIDDEN:
        yield f"{call.lineno}: {name} runs data"
    if name == "torch.load" and settings.get("weights_only") != "True":
        yield f"{call.lineno}: torch.load without weights_only"
    if name.endswith(".load") and settings.get("allow_pickle", "False") != "False":
        yield f"{call.lineno}: allow_pickle"
    if settings.get("shell", "False") != "False":
        yield f"{call.lineno}: a shell"
    if settings.get("trust_remote_code", "False") != "False":
        yield f"{call.lineno}: code from a checkpoint"
    if settings.get("autoescape", "True") == "False":
        yield f"{call.lineno}: a template that does not escape"
    if name.split(".")[-1] in ("from_string", "Template") and not constant:
        yield f"{call.lineno}: a template that is no constant"
    if name.split(".")[-1] == "import_module" and not constant:
        yield f"{call.lineno}: a module by a name that is no constant"


def test_nothing_that_is_read_is_run():
    found = []
    files = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")]
    assert len(files) > 250
    for path in files:
        place = path.relative_to(ROOT).as_posix()
        for complaint in complaints(ast.parse(path.read_text())):
            if "module by a name" in complaint and place in IMPORTS_BY_NAME:
                continue
            if "a template" in complaint and place in TEMPLATES:
                continue
            if "unpickles" in complaint and place in UNPICKLED:
                continue
            found.append(f"{place}:{complaint}")
    assert found == []


@pytest.mark.parametrize(
    "code",
    [
        "import pickle",
        "from cloudpickle import loads",
        "import joblib as j",
        "eval(x)",
        "yaml.load(text)",
        "torch.load(path)",
        "torch.load(path, weights_only=False)",
        "np.load(path, allow_pickle=True)",
        "subprocess.run(text, shell=True)",
        "Environment().from_string(text)",
        "Template(text)",
        "import_module(name)",
        "AutoModel.from_pretrained(path, trust_remote_code=True)",
        "Environment(autoescape=False)",
        "os.system(text)",
    ],
)
def test_it_is_seen(code):
    assert list(complaints(ast.parse(code)))


@pytest.mark.parametrize("code", ["yaml.safe_load(x)", "torch.load(p, weights_only=True)", "np.load(p)", "f.load(x)"])
def test_what_is_harmless_is_not(code):
    assert not list(complaints(ast.parse(code)))

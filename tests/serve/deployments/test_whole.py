"""What `serve run` says of its address, and where requests to one application of everything go."""

import asyncio
import warnings

import pytest
import yaml

from demur.serve.configuration import load_config
from tests.conftest import ROOT

pytestmark = pytest.mark.slow

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # importing Ray warns
    from demur.serve.app import AppArgs, _elsewhere
    from demur.serve.deployments.whole import Prefixes


@pytest.mark.parametrize(
    ("http", "said"),
    [
        ({"host": "127.0.0.1", "port": 8000}, []),
        ({"host": "127.0.0.1", "port": 9123}, ["127.0.0.1:8000, whatever http.host and http.port say, which is"]),
    ],
)
def test_another_address_is_said(tmp_path, http, said):
    content = yaml.safe_load((ROOT / "tests/quickstart.yaml").read_text()) | {"http": http}
    (tmp_path / "demur.yaml").write_text(yaml.safe_dump(content))
    args = AppArgs.model_validate(load_config(tmp_path / "demur.yaml").model_dump())
    found = _elsewhere(args)
    assert len(found) == len(said)
    assert all(words in sentence for words, sentence in zip(said, found, strict=True))


@pytest.mark.parametrize(
    ("path", "asked", "root"),
    [
        ("/", "gateway", ""),
        ("/v1/predict", "gateway", ""),
        ("/review", "pages", "/review"),
        ("/review/cases/1", "pages", "/review"),
        ("/reviews", "gateway", ""),
        ("/review%2f", "gateway", ""),
    ],
)
def test_what_lies_under_a_prefix_is_sent_there(path, asked, root):
    found = []

    def application(name):
        async def app(scope, receive, send):
            found.append((name, scope.get("root_path", "")))

        return app

    whole = Prefixes(application("gateway"), {"/review": application("pages")})
    asyncio.run(whole({"type": "http", "path": path}, None, None))
    assert found == [(asked, root)]

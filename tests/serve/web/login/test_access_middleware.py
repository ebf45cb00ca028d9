"""The door around each application: every route is listed, and refused to whoever may not."""

import re
from uuid import uuid4

import pytest
from starlette.routing import Mount
from starlette.testclient import TestClient

from demur.serve.access.keys import Rates
from demur.serve.access.needs import AUDIT, GATEWAY, OPEN, REVIEW, Doors
from demur.serve.access.rates import Rate
from demur.serve.config.access import AccessConfig, Scope
from demur.serve.web.audit.app import audits_app
from demur.serve.web.login.access_middleware import AccessMiddleware
from demur.serve.web.native.app import gateway_app
from demur.serve.web.native.fast_path import FastPath
from demur.serve.web.problems import path_of
from demur.serve.web.review.app import console_app
from tests.serve.access.doors import bearer, keeper_of, make, revoke
from tests.serve.contract.pictures.made import encoded
from tests.serve.forms import FORM, form, part

APPLICATIONS = {"gateway": (GATEWAY, ""), "review": (REVIEW, "/review"), "audit": (AUDIT, "/audit")}


@pytest.fixture
def apps(handler, quickstart, database):
    quickstart = quickstart.model_copy(update={"access": AccessConfig()})
    return {
        "gateway": gateway_app(handler, max_body_bytes=quickstart.limits.body_bytes),
        "review": console_app(quickstart, database),
        "audit": audits_app(quickstart, database),
    }


@pytest.fixture
def keeper(database):
    return keeper_of(database)


@pytest.fixture
def doors(apps, keeper, handler):
    """A client for each application behind its door."""
    return {
        name: TestClient(
            AccessMiddleware(asked(apps, name, handler), keeper, needs, cookie="demur-session" if root else None),
            root_path=root,
            raise_server_exceptions=False,
            follow_redirects=False,
        )
        for name, (needs, root) in APPLICATIONS.items()
    }


def asked(apps, name, handler):
    """What answers: of the gateway, the door for predictions before everything else, as it is served."""
    return FastPath(handler, max_body_bytes=2**20).before(apps[name]) if name == "gateway" else apps[name]


@pytest.fixture
def gateway(doors):
    return doors["gateway"]


def routes_of(app):
    """Every route, with a path that leads to it."""
    found = set()
    for route in all_routes(app.routes):
        if isinstance(route, Mount):
            found.add(("GET", f"{route.path}/{{file}}"))
        else:
            found |= {(method, route.path) for method in route.methods - {"HEAD"}}
    return sorted(found)


def all_routes(routes):
    """The routes, and those of included routers, however the framework keeps them."""
    for route in routes:
        if (included := getattr(route, "original_router", None)) is not None:
            assert route.include_context.prefix == ""  # else paths would begin with it
            yield from all_routes(included.routes)
        else:
            yield route


def needed_of(needs, method, path):
    """The scope in the table, whatever the parameters of a path are called; what takes all paths needs `admin`."""
    if path.endswith(":path}"):
        return Scope.ADMIN
    listed = {re.sub(r"\{[^}]*\}", "{}", route): needed for route, needed in needs.items()}
    route = f"{method} {re.sub(r'{[^}]*}', '{}', path)}"
    assert route in listed, f"{method} {path} is not in serve/access/needs.py"
    return listed[route]


def filled(path):
    return re.sub(r"\{[^}]*\}", str(uuid4()), path)


@pytest.mark.parametrize("name", APPLICATIONS)
def test_every_route_is_listed_and_refused_to_whoever_may_not(apps, doors, database, name):
    needs, root = APPLICATIONS[name]
    client = doors[name]
    routes = routes_of(apps[name])
    assert len(routes) > 8
    keys = {scope: make(database, scope) for scope in Scope}
    for method, path in routes:
        needed = needed_of(needs, method, path)
        address = f"{root}{filled(path)}"
        if needed is OPEN:
            response = client.request(method, address)
            assert response.status_code != 401, address
            assert response.status_code != 403 or path == "/login"  # which says that nothing is no code
            continue
        stranger = client.request(method, address)
        if root and not path.startswith(("/v1/", "/metrics")):
            assert stranger.status_code == 303, address
            assert stranger.headers["location"].startswith("/review/login")
            assert stranger.content == b""
        else:
            assert stranger.status_code == 401, address
            assert "nobody knows who you are" in stranger.text
        for scope, key in keys.items():
            if scope not in (needed, Scope.ADMIN):
                refused = client.request(method, address, headers=bearer(key))
                assert refused.status_code == 403, (address, scope)
                assert needed in refused.text


@pytest.mark.parametrize("name", APPLICATIONS)
def test_whoever_may_gets_in(apps, doors, database, name):
    needs, root = APPLICATIONS[name]
    keys = {scope: make(database, scope) for scope in Scope}
    for method, path in routes_of(apps[name]):
        needed = needed_of(needs, method, path)
        for scope in {needed, Scope.ADMIN} - {OPEN}:
            response = doors[name].request(method, f"{root}{filled(path)}", headers=bearer(keys[scope]))
            assert "NotKnown" not in response.text
            assert "NotAllowed" not in response.text, (method, path, scope)


@pytest.mark.parametrize("name", APPLICATIONS)
def test_no_path_means_two_things(name):
    """Where two patterns take the same path, the one that is first here need not be the one of the router."""
    needs, _ = APPLICATIONS[name]
    doors = Doors(needs)
    for route, needed in needs.items():
        method, _, path = route.partition(" ")
        for word in ("next", "batch", "x", "report.json"):
            concrete = re.sub(r"\{[^}]*\}", word, path)
            if f"{method} {concrete}" not in needs:
                assert doors.needs(method, concrete) == needed, concrete


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v1/predictt"),
        ("GET", "/v1/predict"),
        ("PUT", "/v1/predict"),
        ("OPTIONS", "/v1/predict"),
        ("POST", "/v1/predict/"),
        ("POST", "//v1/predict"),
        ("POST", "/V1/predict"),
        ("POST", "/v1/predict%0A"),
        ("POST", "/v1/predict%2F"),
        ("GET", "/healthz/%2E%2E/v1/models"),
        ("POST", "/healthz"),
        ("GET", "/docs/%2E%2E/v1/models"),
        ("GET", "/static-offline-docs/%2E%2E/v1/models"),
        ("GET", "/static-offline-docs/%2E%2E%2Fv1/models"),
    ],
)
def test_what_is_not_listed_needs_admin(gateway, database, method, path):
    assert gateway.request(method, path).status_code == 401
    refused = gateway.request(method, path, headers=bearer(make(database, Scope.PREDICT, Scope.REVIEW, Scope.AUDIT)))
    assert refused.status_code == 403
    assert "`admin`" in refused.text


@pytest.mark.parametrize(
    ("path", "root", "below"),
    [
        ("/v1/x", "", "/v1/x"),
        ("/review/v1/x", "/review", "/v1/x"),
        ("/review", "/review", "/"),
        ("/review/", "/review", "/"),
        ("/reviewer", "/review", "/reviewer"),
        ("/other/v1/x", "/review", "/other/v1/x"),
    ],
)
def test_a_path_is_taken_as_routers_take_it(path, root, below):
    assert path_of({"path": path, "root_path": root}) == below


def test_a_refusal_says_what_to_do(gateway, database):
    stranger = gateway.post("/v1/predict", json={})
    assert stranger.headers["www-authenticate"] == 'Bearer realm="demur"'
    assert stranger.json() == {
        "error": {
            "kind": "NotKnown",
            "message": "nobody knows who you are; send a key as `Authorization: Bearer demur_...`",
        }
    }
    chatting = gateway.post("/v1/chat/completions", json={})
    assert chatting.status_code == 401
    assert chatting.json()["error"]["code"] == "NotKnown"
    assert gateway.get("/v1/models").json()["error"]["type"] == "invalid_request_error"


def test_a_prediction_with_a_key(gateway, database, clear_digit):
    key = make(database, Scope.PREDICT)
    body = {"model": "digits", "input": clear_digit}
    predicted = gateway.post("/v1/predict", json=body, headers=bearer(key))
    assert predicted.json()["action"] == "answer"
    path = f"/v1/predictions/{predicted.json()['id']}"
    assert gateway.get(path).status_code == 401
    assert gateway.get(path, headers=bearer(key)).json()["prediction"] == predicted.json()["prediction"]
    told = gateway.post(f"{path}/outcome", json={"label": "7"}, headers=bearer(key))
    assert told.status_code == 201


def test_a_key_for_other_models_is_refused_everywhere(gateway, database, clear_digit):
    all_models, other = make(database, Scope.PREDICT), make(database, Scope.PREDICT, models=["other"])
    body = {"model": "digits", "input": clear_digit}
    id = gateway.post("/v1/predict", json=body, headers=bearer(all_models)).json()["id"]
    for response in (
        gateway.post("/v1/predict", json=body, headers=bearer(other)),
        gateway.get(f"/v1/predictions/{id}", headers=bearer(other)),
        gateway.get(f"/v1/predictions/{id}?wait=1", headers=bearer(other)),
        gateway.post(f"/v1/predictions/{id}/outcome", json={"label": "7"}, headers=bearer(other)),
        gateway.post(
            "/v1/chat/completions",
            json={"model": "digits", "messages": [{"role": "user", "content": "x"}]},
            headers=bearer(other),
        ),
    ):
        assert response.status_code == 403
        assert "this key is not for 'digits'; it is for: other" in response.text


def test_files_in_a_form_need_a_key_as_json_does(gateway, database):
    """Whatever a form says of the model, a key for others learns nothing of it, and nothing is recorded."""
    key, other = make(database, Scope.PREDICT), make(database, Scope.PREDICT, models=["other"])
    reviewer = make(database, Scope.REVIEW)
    body = form(part("model", "digits"), part("file", encoded("PNG")))
    for path in ("/v1/predict", "/v1/predict/batch"):
        told = {
            name: gateway.post(path, content=body, headers={"Content-Type": FORM, **headers})
            for name, headers in {"nobody": {}, "another": bearer(other), "a reviewer": bearer(reviewer)}.items()
        }
        assert {name: one.status_code for name, one in told.items()} == {
            "nobody": 401,
            "another": 403,
            "a reviewer": 403,
        }
        assert "this key is not for 'digits'; it is for: other" in told["another"].text
        elsewhere = form(part("model", "nobody"), part("file", encoded("PNG")))
        unknown = gateway.post(path, content=elsewhere, headers={"Content-Type": FORM, **bearer(other)})
        assert (unknown.status_code, "there are" in unknown.text) == (403, False)
        with database.transaction() as connection:
            assert connection.execute("select count(*) from records").fetchone() == (0,)
    assert gateway.post("/v1/predict", content=body, headers={"Content-Type": FORM, **bearer(key)}).status_code == 200


def test_files_in_a_form_count_for_the_rate(gateway, database):
    key = make(database, Scope.PREDICT, rates=Rates(predictions=Rate(per_second=0.001, burst=2)))
    body = form(part("model", "digits"), *[part("file", encoded("PNG"))] * 2)
    headers = {"Content-Type": FORM, **bearer(key)}
    assert gateway.post("/v1/predict/batch", content=body, headers=headers).status_code == 200
    assert gateway.post("/v1/predict/batch", content=body, headers=headers).status_code == 429


def test_in_a_batch_each_item_is_refused_by_itself(gateway, database, clear_digit):
    key = make(database, Scope.PREDICT, models=["digits"])
    items = [{"model": "digits", "input": clear_digit}, {"model": "other", "input": clear_digit}]
    answer = gateway.post("/v1/predict/batch", json={"items": items}, headers=bearer(key))
    assert [result["status"] for result in answer.json()["results"]] == [200, 403]


def test_a_batch_of_outcomes_for_another_key(gateway, database, clear_digit):
    """A key for other models writes no outcome, and is not told what somebody else wrote under the same key."""
    key, other = make(database, Scope.PREDICT), make(database, Scope.PREDICT, models=["other"])
    body = {"model": "digits", "input": clear_digit}
    id = gateway.post("/v1/predict", json=body, headers=bearer(key)).json()["id"]
    batch, known = {"items": [{"id": id, "label": "3"}]}, {"Idempotency-Key": "k1"}
    for headers, status in ((bearer(key), 201), (bearer(other), 403), (bearer(key), 201)):
        told = gateway.post("/v1/outcomes/batch", json=batch, headers=headers | known).json()["results"]
        assert [result["status"] for result in told] == [status]
    assert len(gateway.get(f"/v1/predictions/{id}", headers=bearer(key)).json()["outcomes"]) == 1
    assert gateway.post("/v1/outcomes/batch", json=batch).status_code == 401


def test_what_was_stored_for_another_key_is_not_handed_out(gateway, database, clear_digit):
    """Knowing an Idempotency-Key and the input does not do: the key must be for that model too."""
    body = {"model": "digits", "input": clear_digit}
    known = {"Idempotency-Key": "k1"}
    gateway.post("/v1/predict", json=body, headers=bearer(make(database, Scope.PREDICT)) | known)
    batch = {"items": [body]}
    known_batch = {"Idempotency-Key": "k2"}
    gateway.post("/v1/predict/batch", json=batch, headers=bearer(make(database, Scope.PREDICT)) | known_batch)
    other = bearer(make(database, Scope.PREDICT, models=["other"]))
    assert gateway.post("/v1/predict", json=body, headers=other | known).status_code == 403
    again = gateway.post("/v1/predict/batch", json=batch, headers=other | known_batch).json()
    assert [result["status"] for result in again["results"]] == [403]


def test_beyond_the_rate_it_is_429_and_says_when_to_come_again(gateway, database, clear_digit):
    rates = Rates(requests=Rate(per_second=0.05, burst=1))
    key = make(database, Scope.PREDICT, rates=rates)
    assert gateway.get("/v1/models", headers=bearer(key)).status_code == 200
    refused = gateway.get("/v1/models", headers=bearer(key))
    assert refused.status_code == 429
    assert refused.headers["retry-after"] == "20"
    assert refused.json()["error"]["code"] == "TooOften"


def test_a_batch_counts_each_prediction(gateway, database, clear_digit):
    rates = Rates(predictions=Rate(per_second=0.1, burst=3))
    key = make(database, Scope.PREDICT, rates=rates)
    item = {"model": "digits", "input": clear_digit}
    assert gateway.post("/v1/predict/batch", json={"items": [item] * 2}, headers=bearer(key)).status_code == 200
    refused = gateway.post("/v1/predict/batch", json={"items": [item] * 2}, headers=bearer(key))
    assert refused.status_code == 429
    assert refused.headers["retry-after"] in ("9", "10")  # a busy machine has waited for a part of it
    assert gateway.post("/v1/predict", json=item, headers=bearer(key)).status_code == 200
    chat = {"model": "digits", "messages": [{"role": "user", "content": "x"}]}
    assert gateway.post("/v1/chat/completions", json=chat, headers=bearer(key)).headers["retry-after"] in (
        "7",
        "8",
        "9",
        "10",
    )  # a busy machine has waited for a part of it


def test_strangers_learn_of_health_whether_all_is_well(gateway, database):
    assert gateway.get("/healthz").json() == {"status": "ok"}
    assert gateway.get("/healthz", headers={"Authorization": "Bearer nonsense"}).json() == {"status": "ok"}
    assert "models" in gateway.get("/healthz", headers=bearer(make(database, Scope.PREDICT))).json()


def test_a_revoked_key_is_out(gateway, keeper, database):
    key = make(database, Scope.PREDICT)
    assert gateway.get("/v1/models", headers=bearer(key)).status_code == 200
    revoke(database, key)
    keeper.ring.look()
    assert gateway.get("/v1/models", headers=bearer(key)).status_code == 401


def test_a_key_acts_under_its_own_name_whatever_headers_and_cookies_say(doors, database):
    headers = bearer(make(database, Scope.REVIEW, Scope.AUDIT, name="robot")) | {"X-Demur-Reviewer": "ada"}
    review = doors["review"]
    review.cookies.set("demur-reviewer", "ada")
    assert review.get("/review/v1/me", headers=headers).json()["name"] == "robot"
    asked = {"model": "digits", "since": "2026-01-01T00:00:00Z", "until": "2026-01-02T00:00:00Z"}
    run = doors["audit"].post("/audit/v1/audits", json=asked, headers=headers).json()
    assert run["asked_by"] == "robot"


def test_websockets_are_closed(gateway):
    from starlette.websockets import WebSocketDisconnect

    with pytest.raises(WebSocketDisconnect), gateway.websocket_connect("/v1/predict"):
        pass

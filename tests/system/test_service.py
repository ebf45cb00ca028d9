"""One service, used as its users would: by curl, by code, by the demo, by an auditor, by whoever releases artifacts."""

import base64
import json
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import numpy as np
import psycopg
import pytest
import yaml
from PIL import Image

from demur import Client
from tests.conftest import digit_rows
from tests.serve.contract.pictures.made import SECRET, told_exif
from tests.system.conftest import Callers, free_port

pytestmark = pytest.mark.slow


def test_the_line_that_it_prints_can_be_pasted(service):
    (line,) = [line for line in service.said().splitlines() if line.strip().startswith("curl")]
    answer = json.loads(subprocess.run(line, shell=True, capture_output=True, check=True).stdout)
    assert answer["prediction"] == "0"
    assert answer["action"] == "answer"
    assert "fitting one on" in service.said()  # the store was empty, and it said so
    assert f"{service.url}/review/" in service.said()
    assert f"{service.url}/audit/" in service.said()
    assert f"{service.url}/docs" in service.said()
    assert "Traceback" not in service.said()


def test_health_docs_and_pages_are_there(http):
    assert http.get("/healthz").json()["status"] == "ok"
    assert http.get("/docs").status_code == 200
    assert http.get("/openapi.json").json()["info"]["title"] == "demur"
    assert "Who is reviewing?" in http.get("/review/").text
    assert http.get("/review").status_code == 307


def test_many_at_once_are_all_answered_and_on_record(service, http, digits):
    rows = digit_rows(digits)[:200]

    def ask(row):
        return callers.post("/v1/predict", json={"model": "digits", "input": row["input"]}).json()

    with Callers(service.url) as callers, ThreadPoolExecutor(32) as pool:
        answers = list(pool.map(ask, rows))
    right = [answer["prediction"] == row["label"] for answer, row in zip(answers, rows, strict=True)]
    assert sum(right) / len(rows) > 0.95
    assert len({answer["id"] for answer in answers}) == 200
    for answer in answers:
        assert http.get(f"/v1/predictions/{answer['id']}").json()["prediction"] == answer["prediction"]


def test_a_full_batch(http, digits):
    rows = (digit_rows(digits) * 3)[:1024]
    items = [{"model": "digits", "input": row["input"]} for row in rows]
    results = http.post("/v1/predict/batch", json={"items": items}).json()["results"]
    assert [result["status"] for result in results] == [200] * 1024


def test_files_of_pictures_by_curl(service, http, digits, tmp_path):
    """As documented: a file in each format, alone and several at once. A digit is drawn large, so that what JPEG and
    WebP change does not matter."""
    row = digit_rows(digits)[0]
    image = Image.fromarray((np.array(row["input"]) * 255).astype(np.uint8)).resize((64, 64), Image.Resampling.NEAREST)
    files = [tmp_path / f"digit.{name}" for name in ("png", "jpeg", "webp")]
    for file in files:
        image.save(file, exif=told_exif(), quality=95)
        assert SECRET in file.read_bytes()
    curl = ["curl", "-s", "-F", "model=digits", "-F", "group=files"]
    for file in files:
        told = subprocess.run(
            [*curl, "-F", f"file=@{file}", f"{service.url}/v1/predict"], capture_output=True, check=True
        )
        assert json.loads(told.stdout)["prediction"] == row["label"]
    several = [word for file in files for word in ("-F", f"file=@{file}")]
    told = subprocess.run([*curl, *several, f"{service.url}/v1/predict/batch"], capture_output=True, check=True)
    results = json.loads(told.stdout)["results"]
    assert [one["prediction"]["prediction"] for one in results] == [row["label"]] * 3
    with psycopg.connect(f"host={service.folder / 'var/postgres'} dbname=postgres user=postgres") as connection:
        stored = connection.execute(
            "select input #>> '{}' from payloads join records on id = record_id where \"group\" = 'files'"
        ).fetchall()
    kept = [base64.b64decode(url.partition(",")[2]) for (url,) in stored]
    assert len(kept) == 6
    assert not any(SECRET in file for file in kept)


def test_a_client_and_whole_files(service, digits):
    """What another program asks of the real thing, and what its commands do with a file."""
    rows = digit_rows(digits)[:100]
    with Client(service.url, name="ada") as client:
        predictions = client.predict_many("digits", [row["input"] for row in rows])
        assert client.health().ok
        assert client.models() == ["digits"]
        assert client.predict("digits", rows[0]["input"]).prediction == predictions[0].prediction
        folder = service.folder
        client.export("digits", folder / "cases.jsonl")
        cases = [json.loads(line) for line in (folder / "cases.jsonl").read_text().splitlines()]
        assert {one.id for one in predictions if one.action == "review"} <= {case["record"] for case in cases}
        assert client.reports() == []
        (folder / "rows.jsonl").write_text("".join(json.dumps({"input": row["input"]}) + "\n" for row in rows))
        said = service.run_here(
            "predict", "rows.jsonl", "--model", "digits", "--out", "out.jsonl", "--url", service.url
        )
        assert "100 rows: " in said
        told = [json.loads(line) for line in (folder / "out.jsonl").read_text().splitlines()]
        assert [one["prediction"] for one in told] == [one.prediction for one in predictions]
        truth = [json.dumps({"id": one["id"], "label": row["label"]}) for one, row in zip(told, rows, strict=True)]
        (folder / "truth.jsonl").write_text("\n".join(truth))
        said = service.run_here("outcomes", "truth.jsonl", "--url", service.url, "--source", "archive")
        assert "100 rows: 100 written, 0 refused" in said
        assert client.prediction(told[7]["id"]).outcome.source == "archive"


def test_demo_and_audit(service, http, digits):
    begun = datetime.now(UTC).isoformat()
    rows = (digits / "test.jsonl").read_text().splitlines()[:200]
    (service.folder / "demo.jsonl").write_text("\n".join(rows))
    printed = service.run_here("demo", "--data", "demo.jsonl")
    corrupted = next(line for line in printed.splitlines() if " 600 " in line).split("│")
    of_all, of_answered = (float(corrupted[at].strip().rstrip("%")) for at in (5, 6))
    assert of_answered > of_all, printed

    printed = service.run_here("audit", "--since", begun, "--every-outcome-known", "--out", "report", "--store")
    assert "800 of " in printed
    numbers = json.loads((service.folder / "report/digits.json").read_text())
    lines = {line["name"]: line for line in numbers["estimates"] if not line["of"]}
    assert lines["risk"]["labelled"] == 800
    assert lines["selective_risk"]["value"] < lines["risk"]["value"]
    (groups,) = [part["cells"] for part in numbers["breakdowns"] if part["by"] == "group"]
    assert {cell["name"] for cell in groups} == {"clean", "noise", "rotation", "blanked strokes"}
    (kept,) = http.get("/audit/v1/reports").json()["reports"]
    assert kept["verdict"] == numbers["headline"]["verdict"]
    assert http.get(f"/audit/reports/{kept['id']}").status_code == 200


def test_an_audit_that_somebody_asks_for_is_made_beside_the_pages(service, http):
    since = (datetime.now(UTC) - timedelta(hours=1)).isoformat()
    asked = http.post(
        "/audit/v1/audits", json={"model": "digits", "since": since}, headers={"X-Demur-Reviewer": "lea"}
    ).json()
    deadline = time.monotonic() + 120
    while (run := http.get(f"/audit/v1/audits/{asked['id']}").json())["status"] in ("waiting", "running"):
        assert time.monotonic() < deadline, run
        time.sleep(0.5)
    assert run["status"] == "done", run
    assert http.get(f"/audit/v1/reports/{run['report']}").json()["made_by"] == "lea"
    assert "Was the promise kept?" in http.get("/audit/").text


def test_a_promotion_reaches_the_running_service_and_drops_nothing(service, http, digits):
    rows = digit_rows(digits)[:50]
    before = http.get("/healthz").json()["models"]["digits"]["artifact"]
    second = service.run_here("fit", "digits").split("promote digits ")[1].split()[0]
    answers, stop = [], threading.Event()

    def load():
        while not stop.is_set():
            for row in rows:
                answers.append(callers.post("/v1/predict", json={"model": "digits", "input": row["input"]}))

    with Callers(service.url) as callers, ThreadPoolExecutor(4) as pool:
        for _ in range(4):
            pool.submit(load)
        try:
            assert "promotion 2" in service.run_here("artifacts", "promote", "digits", second, "--why", "a second one")
            promoted = time.monotonic()
            while http.get("/healthz").json()["models"]["digits"]["artifact"] == before:
                assert time.monotonic() - promoted < 10
                time.sleep(0.1)
            time.sleep(0.5)
        finally:
            stop.set()
    assert {answer.status_code for answer in answers} == {200}
    used = {answer.json()["artifact"] for answer in answers}
    after = http.get("/healthz").json()["models"]["digits"]["artifact"]
    assert used == {before, after}
    assert after == second
    assert f"artifact {after} is in force" in service.said()  # the operator's terminal tells of it


def test_a_second_service_on_the_same_folder_is_refused(service):
    config = yaml.safe_load((service.folder / "demur.yaml").read_text())
    config["http"] = {"host": "127.0.0.1", "port": free_port()}
    (service.folder / "second.yaml").write_text(yaml.safe_dump(config))
    done = subprocess.run(
        service.command("up", "second.yaml"), cwd=service.folder, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 1
    assert f"a demur (pid {service.process.pid}) is already running on" in done.stderr
    assert "Traceback" not in done.stderr

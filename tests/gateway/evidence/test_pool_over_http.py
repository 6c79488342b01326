"""A tenant's evidence over HTTP: the same answers as those of the command line."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.cli.test_pool_command import run, run_json
from tests.gateway.live_desk import NO_FILE, LiveDesk, config_of
from tests.gateway.test_access_over_http import add_key, bearer
from tests.pool.conftest import build_point
from upturn.gateway import open_gateway
from upturn.pool import Pool
from upturn.pool.access import admin_acts
from upturn.records import Alternative, Decision, fields_json

MAIL = "maria.silva@corp.de"
ENVELOPE = ("command", "version", "machine", "config_hash")
LINES = {"accept": "application/x-ndjson"}
TASK, TRAJECTORY, EVALUATION = (json.loads(fields_json(record)) for record in build_point("x", tenant="shop"))
DECISION = json.loads(
    fields_json(
        Decision(
            "d1", TASK["id"], "mail", "shop", "uniform", "s", (Alternative("nano@1", 1.0, None),), "nano", "nano@1",
            1.0, "the only one",
        )
    )
)  # fmt: skip


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A pool with data points of two tenants."""
    path = tmp_path / "pool.db"
    with Pool.open(path, clock=lambda: 1_790_000_000.0) as pool:
        for name, family in (("a", "mail"), ("b", "mail"), ("c", "files")):
            pool.append(*build_point(name, family=family, tenant="shop"))
        pool.append(*build_point("other", tenant="hidden", family="hidden"))
    return path


@pytest.fixture
def desk(path: Path) -> Iterator[LiveDesk]:
    """A gateway over the pool whose client has an operator's key of the tenant shop."""
    with Pool.open(path) as pool:
        keys = {role: add_key(pool, "shop", role) for role in ("operator", "admin", "feedback")}
    headers = {**bearer(keys["operator"]), "x-test-admin": keys["admin"], "x-test-feedback": keys["feedback"]}
    with open_gateway(config_of(path), NO_FILE, host="127.0.0.1") as gateway:
        transport = httpx2.ASGITransport(app=gateway.app)
        client = httpx2.AsyncClient(transport=transport, base_url="http://localhost", headers=headers)
        yield LiveDesk(gateway, client, gateway.service.pool)


def shown(path: Path, *command: str) -> dict[str, Any]:
    """What a command prints as JSON, without the description of the command."""
    printed = run_json("pool", *command, "--pool", path, "--tenant", "shop")
    return {name: value for name, value in printed.items() if name not in ENVELOPE}


def as_role(desk: LiveDesk, role: str) -> dict[str, str]:
    return bearer(desk.client.headers[f"x-test-{role}"])


def code_of(answer: httpx2.Response) -> tuple[int, str]:
    return answer.status_code, answer.json()["error"]["code"]


@pytest.mark.parametrize(
    ("query", "options"),
    [
        ("", ()),
        ("?family=mail", ("--family", "mail")),
        ("?since=2026-09-01&before=2027-01-01", ("--since", "2026-09-01", "--before", "2027-01-01")),
        ("?before=2026-01-01", ("--before", "2026-01-01")),
    ],
)
async def test_statistics_and_quality_are_those_of_the_commands(
    desk: LiveDesk, path: Path, query: str, options: tuple[str, ...]
) -> None:
    statistics = await desk.client.get(f"/v1/pool/statistics{query}")
    assert statistics.json() == shown(path, "stats", *options)
    quality = await desk.client.get(f"/v1/pool/quality{query}")
    assert quality.json() == shown(path, "validate", "--gates", *options)
    assert "hidden" not in statistics.text + quality.text


async def test_a_batch_is_that_of_the_command(desk: LiveDesk, path: Path, tmp_path: Path) -> None:
    body = {"size": 2, "seed": 7, "families": ["mail"], "verdicts": ["success"]}
    command = ("batch", "--size", "2", "--seed", "7", "--family", "mail", "--verdict", "success")
    out = tmp_path / "points.jsonl"
    printed = shown(path, *command, "--out", str(out))
    assert (await desk.client.post("/v1/pool/batch", json=body)).json() == printed
    lines = await desk.client.post("/v1/pool/batch", json=body, headers=LINES)
    assert lines.headers["content-type"].startswith("application/x-ndjson")
    assert (lines.headers["x-upturn-points"], lines.headers["x-upturn-bound"]) == ("2", str(printed["bound"]))
    assert lines.text == out.read_text()


async def test_a_frozen_batch_is_a_snapshot(desk: LiveDesk) -> None:
    answer = (await desk.client.post("/v1/pool/batch", json={"freeze": True})).json()
    [snapshot] = desk.pool.snapshots()
    assert (answer["snapshot"], snapshot.tenants) == (snapshot.id, ("shop",))


async def test_contents_are_anonymised_and_raw_ones_are_an_act_of_an_administrator(
    desk: LiveDesk, path: Path, tmp_path: Path
) -> None:
    task, trajectory, _ = build_point("secret", tenant="shop", family="private")
    changed = json.loads(fields_json(trajectory)) | {"error": f"ask {MAIL}"}
    reported = {"trajectory": changed, "task": json.loads(fields_json(task)) | {"instruction": f"Answer {MAIL}."}}
    assert (await desk.client.post("/v1/pool/executions", json=reported)).status_code == 200
    body = {"families": ["private"], "contents": "anonymised"}
    refused = await desk.client.post("/v1/pool/batch", json=body)
    assert "send the header accept: application/x-ndjson" in refused.json()["error"]["message"]
    [line] = (await desk.client.post("/v1/pool/batch", json=body, headers=LINES)).text.splitlines()
    point = json.loads(line)
    assert point["task"]["instruction"] == "Answer <EMAIL>."
    assert (point["trajectory"]["error"], point["trajectory"]["rows"]) == ("ask <EMAIL>", [])
    out = tmp_path / "points.jsonl"
    run("pool", "batch", "--family", "private", "--contents", "anonymised", "--out", out, "--pool", path,
        "--tenant", "shop")  # fmt: skip
    assert out.read_text() == line + "\n"
    raw = body | {"contents": "raw", "why": "asked by the person", "who": "ada"}
    assert code_of(await desk.client.post("/v1/pool/batch", json=raw, headers=LINES)) == (403, "permission_denied")
    admin = LINES | as_role(desk, "admin")
    without = await desk.client.post("/v1/pool/batch", json=raw | {"why": " "}, headers=admin)
    assert without.json()["error"]["message"] == "raw contents need their reason"
    assert [act.what for act in admin_acts(desk.pool.engine, tenant="shop")] == ["keys add"] * 3
    answer = await desk.client.post("/v1/pool/batch", json=raw, headers=admin)
    assert json.loads(answer.text)["trajectory"] == changed
    act = admin_acts(desk.pool.engine, tenant="shop")[-1]
    assert (act.what, act.tenant, act.why, act.who.startswith("ada (key ")) == (
        "pool batch raw", "shop", "asked by the person", True,
    )  # fmt: skip


async def test_reports_are_stored_once_and_as_by_the_command(desk: LiveDesk, tmp_path: Path) -> None:
    file, copy = tmp_path / "log.jsonl", tmp_path / "copy.db"
    reports: list[tuple[str, dict[str, Any]]] = [
        ("decisions", {"decision": DECISION, "task": TASK}),
        ("executions", {"trajectory": TRAJECTORY}),
        ("evaluations", {"evaluation": EVALUATION}),
    ]
    for name, body in reports:
        for added in (1 + ("task" in body), 0):
            file.write_text(json.dumps(body))
            answer = await desk.client.post(f"/v1/pool/{name}", json=body)
            assert answer.status_code == 200, answer.text
            assert answer.json() == shown(copy, "log", str(file))
            assert answer.json()["results"][0]["value"] == added
    [experience] = [item for item in desk.pool.experiences(tenant="shop") if item.task.id == TASK["id"]]
    assert json.loads(fields_json(experience.trajectory)) == TRAJECTORY
    assert [decision.id for decision in desk.pool.decisions(tenant="shop")] == ["d1"]


@pytest.mark.parametrize(
    ("name", "body", "status", "message"),
    [
        ("decisions", {"decision": DECISION}, 404, "the tenant has no task 'task-x'"),
        ("decisions", {"decision": DECISION | {"tenant": "hidden"}, "task": TASK}, 400, "is of tenant 'hidden'"),
        ("decisions", {"decision": DECISION | {"propensity": 0.0}, "task": TASK}, 400, "propensity of decision"),
        ("decisions", {"decision": DECISION | {"alternatives": []}, "task": TASK}, 400, "sum to 1"),
        ("decisions", {"decision": DECISION | {"arm": "candidate"}, "task": TASK}, 400, "of a canary"),
        ("executions", {"trajectory": {"id": "x"}, "task": TASK}, 400, "not a Trajectory: task_id"),
        ("executions", {"trajectory": TRAJECTORY | {"task_id": "task-other"}}, 404, "no task 'task-other'"),
        ("evaluations", {"evaluation": EVALUATION | {"trajectory_id": "trajectory-other"}}, 404, "no trajectory"),
        ("evaluations", {"evaluation": EVALUATION | {"trajectory_id": "trajectory-a"}}, 400, "is of task 'task-a'"),
        ("evaluations", {"evaluation": EVALUATION, "task": TASK}, 400, "task"),
        ("executions", {}, 400, "trajectory"),
        ("batch", {"size": 10_001}, 400, "size"),
        ("batch", {"heldout_share": 1.0}, 400, "heldout_share must be"),
        ("batch", {"since": "yesterday"}, 400, "since: 'yesterday' is no day or time"),
        ("batch", {"labels": ["x"]}, 400, "labels"),
    ],
)  # fmt: skip
async def test_unusable_requests_are_refused_by_name(
    desk: LiveDesk, name: str, body: Any, status: int, message: str
) -> None:
    before = len(list(desk.pool.trajectories(tenant="shop")))
    answer = await desk.client.post(f"/v1/pool/{name}", json=body)
    assert (answer.status_code, message in answer.text) == (status, True), answer.text
    assert len(list(desk.pool.trajectories(tenant="shop"))) == before


async def test_another_record_under_a_stored_id_is_a_conflict(desk: LiveDesk) -> None:
    body = {"trajectory": TRAJECTORY, "task": TASK}
    assert (await desk.client.post("/v1/pool/executions", json=body)).status_code == 200
    body["trajectory"] = TRAJECTORY | {"error": "another"}
    assert code_of(await desk.client.post("/v1/pool/executions", json=body)) == (409, "conflict")


async def test_keys_without_the_role_read_and_report_nothing(desk: LiveDesk) -> None:
    headers = as_role(desk, "feedback")
    for method, name in (("get", "statistics"), ("get", "quality"), ("post", "batch"), ("post", "evaluations")):
        body = {"json": {"evaluation": EVALUATION} if name == "evaluations" else {}} if method == "post" else {}
        answer = await getattr(desk.client, method)(f"/v1/pool/{name}", headers=headers, **body)
        assert code_of(answer) == (403, "permission_denied")


async def test_too_many_data_points_are_not_checked(desk: LiveDesk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("upturn.gateway.evidence.routes.MOST_VALIDATED", 2)
    assert code_of(await desk.client.get("/v1/pool/quality")) == (400, "too_many_points")
    assert (await desk.client.get("/v1/pool/quality?family=mail")).status_code == 200


def test_lines_that_cannot_be_used_are_named_and_the_others_stored(tmp_path: Path) -> None:
    file = tmp_path / "log.jsonl"
    lines = [{"trajectory": TRAJECTORY, "task": TASK}, {"trajectory": TRAJECTORY, "evaluation": EVALUATION}, []]
    file.write_text("\n".join([*map(json.dumps, lines), "{", json.dumps({"evaluation": EVALUATION})]))
    done = run("pool", "log", file, "--pool", tmp_path / "pool.db", "--tenant", "shop", "--json")
    printed = json.loads(done.stdout)
    assert done.exit_code == 1
    assert [result["value"] for result in printed["results"]] == [3.0, 0.0, 3.0]
    assert [refused["line"] for refused in printed["refused"]] == [2, 3, 4]
    assert "one of decision, trajectory, evaluation" in printed["refused"][0]["reason"]

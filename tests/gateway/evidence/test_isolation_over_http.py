"""Canaries over HTTP: strings of one tenant alone are in no answer, metric or log that another one sees."""

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import httpx2
import pytest

from tests.cli.test_pool_isolation import CANARY, fill
from tests.gateway.live_desk import NO_FILE, config_of
from tests.gateway.test_access_over_http import add_key, bearer
from upturn.gateway import open_gateway
from upturn.pool import Pool
from upturn.records import Role

IDS = (f"{CANARY}-1", f"{CANARY}-c", f"{CANARY}-d", CANARY, f"task-{CANARY}-1", f"trajectory-{CANARY}-1")
"""Of the records of tenant ``hidden``."""
INSTALLATION = ("/v1/agents", "/v1/releases", "/v1/router")
"""Endpoints about what belongs to all tenants, which operators and administrators see."""
ROLES: tuple[Role, ...] = ("client", "feedback", "operator", "admin")


@pytest.fixture
def client(tmp_path: Path) -> Iterator[httpx2.AsyncClient]:
    """A client of a gateway; the header ``x-test-ROLE`` has a key of the default tenant with this role."""
    path = tmp_path / "pool.db"
    fill(path)
    with Pool.open(path) as pool:
        headers = {f"x-test-{role}": add_key(pool, "default", role) for role in ROLES}
        headers["x-test-hidden"] = add_key(pool, "hidden", "client", "feedback")
    with open_gateway(config_of(path), NO_FILE, host="127.0.0.1") as gateway:
        transport = httpx2.ASGITransport(app=gateway.app)
        yield httpx2.AsyncClient(transport=transport, base_url="http://localhost", headers=headers)


def as_role(client: httpx2.AsyncClient, role: str) -> dict[str, str]:
    return bearer(client.headers[f"x-test-{role}"])


def shown(answer: httpx2.Response, name: str) -> tuple[int, str]:
    """Status and text of an answer, without the id that was asked for."""
    return answer.status_code, answer.text.replace(name, "ID")


@pytest.mark.parametrize("role", ROLES)
async def test_reads_answer_ids_of_another_tenant_like_unknown_ones(client: httpx2.AsyncClient, role: str) -> None:
    document = (await client.get("/openapi.json")).json()
    paths = [path for path, methods in document["paths"].items() if "get" in methods]
    assert {"/v1/episodes/{episode}", "/v1/tasks/{task}", "/v1/pool/statistics", "/v1/admin/acts"} <= set(paths)
    for path in paths:
        if role in ("operator", "admin") and path.startswith(INSTALLATION):
            continue
        before, _, rest = path.partition("{")
        after = rest.partition("}")[2]
        for name in IDS if rest else ("",):
            answer = await client.get(f"{before}{quote(name)}{after}", headers=as_role(client, role))
            status, text = shown(answer, name) if name else (answer.status_code, answer.text)
            assert CANARY not in text, path
            assert status < 500, path
            if rest:
                unknown = await client.get(f"{before}zz{after}", headers=as_role(client, role))
                assert (status, text) == shown(unknown, "zz"), path


async def test_writes_answer_ids_of_another_tenant_like_unknown_ones(client: httpx2.AsyncClient) -> None:
    evaluation = {
        "id": "e", "task_id": "t", "evaluator": "x", "verdict": "success", "gates": [], "rewards": {}, "costs": {},
        "score": 1.0,
    }  # fmt: skip
    for name in IDS:
        answers = []
        for subject in (name, "zz"):
            requests = [
                ("/v1/feedback", {"value": 1, "decision_id": subject}),
                ("/v1/feedback", {"value": 1, "episode_id": subject}),
                ("/v1/feedback", {"value": 1, "trajectory_id": subject}),
                (f"/v1/episodes/{subject}/seal", {}),
                (f"/v1/tasks/{subject}/cancel", {}),
                ("/v1/pool/evaluations", {"evaluation": evaluation | {"trajectory_id": subject}}),
            ]
            given = [
                await client.post(path, json=body, headers=as_role(client, "admin")) for path, body in requests
            ]
            answers.append([shown(answer, subject) for answer in given])
        assert answers[0] == answers[1]
        assert CANARY not in str(answers)
        assert {status for status, _ in answers[0]} == {404}


async def test_batches_of_another_tenant_have_nothing(client: httpx2.AsyncClient) -> None:
    for contents, accept in (
        ("none", "*/*"),
        ("anonymised", "application/x-ndjson"),
        ("raw", "application/x-ndjson"),
    ):
        headers = as_role(client, "admin") | {"accept": accept}
        body = {"contents": contents, "why": "a test", "families": []}
        answer = await client.post("/v1/pool/batch", json=body, headers=headers)
        assert answer.status_code == 200, answer.text
        assert CANARY not in answer.text
    named = {"families": [f"{CANARY}-family"], "agents": [CANARY]}
    answer = await client.post("/v1/pool/batch", json=named, headers=as_role(client, "admin"))
    assert answer.json()["results"][0]["value"] == 0


async def test_metrics_and_logs_have_nothing_of_a_tenants_traffic(
    client: httpx2.AsyncClient, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    body = {"model": "clerk", "messages": [{"role": "user", "content": CANARY}]}
    headers = as_role(client, "hidden") | {"x-upturn-episode": CANARY, "x-upturn-family": CANARY}
    called = await client.post("/v1/chat/completions", json=body, headers=headers)
    assert called.status_code == 200, called.text
    broken = {**body, "model": CANARY}
    assert (await client.post("/v1/chat/completions", json=broken, headers=headers)).status_code == 404
    value = {"value": 1, "decision_id": called.json()["id"], "comment": CANARY}
    assert (await client.post("/v1/feedback", json=value, headers=headers)).status_code == 200
    await client.post("/v1/feedback", json=value | {"metric": CANARY}, headers=headers)
    await client.post("/v1/traces", content=json.dumps({"x": CANARY}), headers=headers)
    await client.post(f"/v1/episodes/{CANARY}/seal", headers=headers)
    metrics = await client.get("/metrics", headers=as_role(client, "operator"))
    assert "upturn_requests_total" in metrics.text
    assert CANARY not in metrics.text
    ours = [record.getMessage() for record in caplog.records if record.name.startswith("upturn")]
    assert not [message for message in ours if CANARY in message]

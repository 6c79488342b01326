"""What a tenant has decided about its data: set over HTTP, recorded, and in effect from the next request on."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.live_desk import WHY, config_of, live
from tests.gateway.test_access_over_http import add_key, bearer
from upturn.pool import ALL_TENANTS, Pool, ledger_problems
from upturn.pool.access import admin_acts

MAIL = "maria.silva@corp.de"


def said(role: str, text: str) -> str:
    """A message in GenAI's form."""
    return json.dumps([{"role": role, "parts": [{"type": "text", "content": text}]}])


SPAN: dict[str, Any] = {
    "traceId": "a" * 32,
    "spanId": "b" * 16,
    "name": "chat gpt-x",
    "startTimeUnixNano": "1",
    "endTimeUnixNano": "2",
    "attributes": [
        {"key": "gen_ai.operation.name", "value": {"stringValue": "chat"}},
        {"key": "gen_ai.request.model", "value": {"stringValue": "gpt-x"}},
        {"key": "gen_ai.input.messages", "value": {"stringValue": said("user", f"I am {MAIL}.")}},
        {"key": "gen_ai.output.messages", "value": {"stringValue": said("assistant", f"Hello, {MAIL}.")}},
    ],
}
TRACE = {"resourceSpans": [{"scopeSpans": [{"spans": [SPAN]}]}]}


async def test_everything_that_clients_send_is_stored_anonymised(tmp_path: Path) -> None:
    folder = tmp_path / "pool"
    folder.mkdir()
    async with live(config_of(folder / "pool.db")) as desk:
        shown = await desk.client.get("/v1/admin/policy")
        assert shown.json() == {"tenant": "default", "anonymise": "export", "replace_by": "masks", "share": False}
        changed = await desk.client.post("/v1/admin/policy", json={"anonymise": "write", **WHY})
        assert changed.json() == {"tenant": "default", "anonymise": "write", "replace_by": "masks", "share": False}
        again = await desk.client.post("/v1/admin/policy", json={"anonymise": "write", **WHY})
        assert again.json() == changed.json()
        body = {"model": "clerk", "messages": [{"role": "user", "content": f"I am {MAIL}"}]}
        called = await desk.client.post("/v1/chat/completions", json=body, headers={"x-upturn-episode": "e"})
        value = {"metric": "success", "value": 1, "decision_id": called.json()["id"], "comment": f"ask {MAIL}"}
        states = [(await desk.client.post("/v1/feedback", json=value)).json()["state"] for _ in range(2)]
        assert states == ["stored", "known"]
        for _ in range(2):
            traced = await desk.client.post("/v1/traces", json=TRACE)
            assert (traced.status_code, traced.json()) == (200, {})
        sealed = await desk.client.post("/v1/episodes/e/seal")
        assert sealed.status_code == 200, sealed.text
        await desk.gateway.service.log.settle()
        content = b"".join(path.read_bytes() for path in folder.iterdir())
        assert MAIL.encode() not in content
        traced_turns, talk = (record.turns for record in desk.pool.trajectories(tenant="default"))
        assert [turn.text for turn in traced_turns] == ["Hello, <EMAIL>."]
        assert [turn.observation.text for turn in talk] == ["I am <EMAIL>"]
        [feedback] = desk.pool.feedback(tenant="default")
        assert feedback.comment == "ask <EMAIL>"
        [act] = admin_acts(desk.pool.engine, tenant=ALL_TENANTS)
        assert (act.what, act.subject, act.tenant, act.why) == (
            "policy set anonymise=write",
            "default",
            "default",
            "tested by hand",
        )
        assert list(ledger_problems(desk.pool.engine)) == []


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        ({"anonymise": "write"}, 400, "why"),
        ({**WHY}, 400, "nothing to change; give one of anonymise, replace_by, share"),
        ({"anonymise": "never", **WHY}, 400, "anonymise"),
        ({"anonymise": "write", "tenant": "other", **WHY}, 400, "tenant"),
    ],
)
async def test_unusable_changes_are_refused(tmp_path: Path, body: Any, status: int, message: str) -> None:
    async with live(config_of(tmp_path / "pool.db")) as desk:
        answer = await desk.client.post("/v1/admin/policy", json=body)
        assert answer.status_code == status
        assert message in answer.json()["error"]["message"]
        assert admin_acts(desk.pool.engine, tenant=ALL_TENANTS) == []


async def test_an_administrator_decides_for_the_tenant_of_the_key_alone(tmp_path: Path) -> None:
    path = tmp_path / "pool.db"
    with Pool.open(path) as pool:
        admin, operator = add_key(pool, "shop", "admin"), add_key(pool, "shop", "operator")
    async with live(config_of(path)) as desk:
        body = {"anonymise": "write", "replace_by": "pseudonyms", **WHY}
        refused = await desk.client.post("/v1/admin/policy", json=body, headers=bearer(operator))
        assert (refused.status_code, refused.json()["error"]["code"]) == (403, "permission_denied")
        changed = await desk.client.post("/v1/admin/policy", json=body, headers=bearer(admin))
        assert changed.json() == {
            "tenant": "shop",
            "anonymise": "write",
            "replace_by": "pseudonyms",
            "share": False,
        }
        assert desk.gateway.service.border.replacer("shop") is not None
        assert desk.gateway.service.border.replacer("default") is None

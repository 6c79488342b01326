"""Kits as tasksets of verifiers v1: its environment, interception and scoring, with a scripted provider."""

import asyncio
import json
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from benchmarks.errands import ENVIRONMENT, compose
from upturn.environments import resolve_kit
from upturn.models import tools_prompt, write_call

pytest.importorskip("verifiers.v1", reason="the extra verifiers is not installed")

import verifiers.v1 as vf

from upturn.environments.adapters.verifiers import FAULTS_KEY, TRAJECTORY_KEY, KitTask, KitTaskset, task_of

pytestmark = pytest.mark.filterwarnings("ignore")  # verifiers' own

PLUGIN = """
from upturn.environments.adapters.verifiers import KitEnv, KitTaskset
__all__ = ["KitEnv", "KitTaskset"]
"""

CHAT = """
import httpx
import verifiers.v1 as vf

class ChatConfig(vf.HarnessConfig):
    pass

class Chat(vf.Harness[ChatConfig]):
    # One model call per turn in this process; `null` uses a process of its own, started by uv.
    APPENDS_SYSTEM_PROMPT = SUPPORTS_RESUME = True
    EXECUTES_CODE = NEEDS_CONTAINER = False

    async def launch(self, ctx, trace, runtime, endpoint, secret, mcp_urls, data):
        system, prompt = self.resolve_prompt(data)
        messages = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else [
            {"role": each.role, "content": each.content} for each in prompt
        ]
        if system:
            messages.insert(0, {"role": "system", "content": system})
        async with httpx.AsyncClient() as client:
            answer = await client.post(
                f"{endpoint}/chat/completions",
                json={"model": ctx.model, "messages": messages},
                headers={"Authorization": f"Bearer {secret}"},
            )
        return vf.ProgramResult(0 if answer.is_success else 1, answer.text, "")

__all__ = ["Chat"]
"""

Replies = Callable[[Sequence[dict[str, Any]]], str]
"""The model's reply to these messages."""


@pytest.fixture
def plugins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Modules ``kit_tasks`` and ``chat_here``, importable by name like installed plugins."""
    for name, text in (("kit_tasks", PLUGIN), ("chat_here", CHAT)):
        (tmp_path / f"{name}.py").write_text(text)
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)


@pytest.fixture
def provider() -> Iterator[tuple[str, list[Replies]]]:
    """An OpenAI-compatible endpoint: its URL, and a list whose last function gives the replies."""
    replies: list[Replies] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            message = {"role": "assistant", "content": replies[-1](body["messages"])}
            choice = {"index": 0, "message": message, "finish_reason": "stop"}
            usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
            reply = {"id": "1", "object": "chat.completion", "created": 0, "model": "m"}
            sent = json.dumps({**reply, "choices": [choice], "usage": usage}).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(sent)))
            self.end_headers()
            self.wfile.write(sent)

        def log_message(self, *_: object) -> None:
            """Says nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/v1", replies
    server.shutdown()
    thread.join()
    server.server_close()


def episode(url: str, *, agent: dict[str, Any] | None = None, **taskset: Any) -> tuple[KitTask, Any]:
    """Runs the model of the provider on the first task of the taskset, by default errands; returns task and
    episode."""
    seat = {"harness": {"id": "chat_here"}, "runtime": {"type": "subprocess"}, **(agent or {})}
    env = vf.load_environment(
        vf.resolve_env_config({"taskset": {"id": "kit_tasks", "kit": ENVIRONMENT, **taskset}, "agent": seat})
    )
    assert isinstance(env.taskset, KitTaskset)
    [task] = env.taskset.take(1)

    async def play() -> Any:
        async with env.serving():
            return await env.run_episode(task, vf.ModelContext("m", vf.EvalClientConfig(base_url=url)))

    return task, asyncio.run(play())


def test_the_oracle_in_a_chat_earns_1(plugins: None, provider: tuple[str, list[Replies]]) -> None:
    url, replies = provider
    conversations: list[Sequence[dict[str, Any]]] = []
    task = next(iter(resolve_kit(ENVIRONMENT).tasks(seed=4, split="heldout", families=["mail_to_event"])))
    calls = [write_call(action) for action in compose(task).draft.oracle]

    def reply(messages: Sequence[dict[str, Any]]) -> str:
        conversations.append(messages)
        return str(calls[sum(message["role"] == "assistant" for message in messages)])

    replies.append(reply)
    drawn_task, result = episode(url, family="mail_to_event", split="heldout", seed=4)
    assert task_of(drawn_task.data) == task
    [trace] = result.traces
    assert (result.ok, result.errors, trace.errors) == (True, [], [])
    assert {name: reward.value for name, reward in trace.rewards.items()} == {"score": 1.0, "on_the_way": 0.0}
    assert trace.reward == 1.0
    assert (trace.metrics["success"], trace.metrics["cost_error"]) == (1.0, 0.0)
    assert (trace.metrics["actions"], trace.num_turns) == (len(calls), len(calls))
    system, user = conversations[0]
    assert system["content"] == tools_prompt(resolve_kit(ENVIRONMENT).tools)  # type: ignore[attr-defined]
    assert user["content"] == task.instruction
    assert conversations[1][2]["content"] == calls[0]


def test_a_stored_trace_is_scored_again_without_rollout(plugins: None, provider: tuple[str, list[Replies]]) -> None:
    url, replies = provider
    replies.append(lambda _: '{"name": "user.finish", "arguments": {}}')
    task, result = episode(url, family="mail_file")
    [trace] = result.traces
    assert (trace.reward, trace.metrics["gate_ended"], trace.metrics["gate_goal"]) == (0.0, 1.0, 0.0)
    stored = vf.WireTrace.model_validate_json(trace.model_dump_json())
    stored.rewards, stored.metrics = {}, {}
    again = KitTask(type(task.data).model_validate(stored.task.data.model_dump()))
    asyncio.run(again.score(stored))
    assert (stored.rewards, stored.metrics) == (trace.rewards, trace.metrics)


def test_faults_are_stored_and_counted(
    plugins: None, provider: tuple[str, list[Replies]], interrupted: Any
) -> None:
    url, replies = provider
    calls = interrupted.calls
    replies.append(lambda messages: str(calls[sum(message["role"] == "assistant" for message in messages)]))
    task, result = episode(url, kit="office", family=interrupted.task.family, seed=0)
    [trace] = result.traces
    assert trace.info[FAULTS_KEY] == interrupted.faults
    assert (trace.reward, trace.metrics["faults"]) == (1.0, 3.0)
    stored = vf.WireTrace.model_validate_json(trace.model_dump_json())
    del stored.info[FAULTS_KEY]  # as in older traces
    stored.rewards, stored.metrics = {}, {}
    asyncio.run(KitTask(type(task.data).model_validate(stored.task.data.model_dump())).score(stored))
    assert "faults" not in stored.metrics


def test_unparsed_replies_get_observations_until_the_limit(
    plugins: None, provider: tuple[str, list[Replies]]
) -> None:
    url, replies = provider
    conversations: list[Sequence[dict[str, Any]]] = []

    def reply(messages: Sequence[dict[str, Any]]) -> str:
        conversations.append(messages)
        return "I would rather not." if len(messages) < 5 else ""

    replies.append(reply)
    _, result = episode(url, max_turns=3)
    [trace] = result.traces
    assert conversations[1][-1]["content"].startswith("write one call")
    assert (trace.ok, trace.reward, trace.metrics["actions"]) == (True, 0.0, 3.0)
    assert (trace.metrics["cost_error"], trace.metrics["gate_ended"]) == (3.0, 0.0)
    assert trace.info[TRAJECTORY_KEY]["outcome"] == "step_limit"


def test_a_stopped_agent_gets_the_score_of_its_progress(plugins: None, provider: tuple[str, list[Replies]]) -> None:
    url, replies = provider
    replies.append(lambda _: "mail.list folder=inbox")
    _, result = episode(url, agent={"max_turns": 2})
    [trace] = result.traces
    assert (trace.ok, trace.stop_condition, trace.reward) == (True, "max_turns", 0.0)
    assert trace.metrics["actions"] == 2.0


def test_a_failing_verifier_is_an_error_without_reward(
    plugins: None, provider: tuple[str, list[Replies]], twice: str
) -> None:
    url, replies = provider
    replies.append(lambda _: "user.answer text=1")
    _, result = episode(url, kit=f"{twice}:unjudged")
    [trace] = result.traces
    assert (result.ok, trace.ok, trace.last_error.type) == (False, False, "TaskError")
    assert "has no evaluation, so it has no reward" in trace.last_error.message
    assert all(reward is None for reward in trace.rewards.values())


def test_a_blocking_environment_has_a_thread(
    plugins: None, provider: tuple[str, list[Replies]], twice: str
) -> None:
    url, replies = provider
    replies.append(lambda messages: f"user.answer text={2 * int(messages[-1]['content'].split()[-1][:-1])}")
    _, result = episode(url, kit=f"{twice}:blocking")
    assert result.traces[0].reward == 1.0
    threads = sys.modules[twice].Blocking.threads
    assert len(threads) > 3
    assert len(set(threads)) == 1
    assert threads[0] is not threading.main_thread()


def test_a_kit_that_describes_no_tools_has_no_system_prompt(
    plugins: None, provider: tuple[str, list[Replies]], twice: str
) -> None:
    url, replies = provider
    replies.append(lambda messages: f"user.answer text={2 * int(messages[-1]['content'].split()[-1][:-1])}")
    task, result = episode(url, kit=f"{twice}:kit")
    assert task.data.system_prompt is None
    assert result.traces[0].reward == 1.0

"""The LangGraph and the openai-agents program of ``examples/programs``: their tasks, and both as commands."""

import asyncio
import importlib.util
import json
from collections.abc import Callable
from itertools import count, islice
from pathlib import Path
from typing import Any

import pytest

from tests.agents.model_server import serving
from tests.agents.test_native_calls import answered
from tests.gateway.clients.environment import FOLDER, needs_clients
from upturn.agents import ProgramAgent, RolloutRequest, Setting, rollout
from upturn.agents.program import ProgramCommand, ProgramModels, captured_calls, endpoint_model
from upturn.config import UpstreamConfig
from upturn.dialects import ModelRequest, Text, ToolCall, ToolResult
from upturn.environments import ProgramEnd, play, verify
from upturn.environments.programs import ProgramKit
from upturn.loop.trainers import check, load_full_config
from upturn.models.upstreams import Endpoint
from upturn.records import Split, Task, Trajectory

PROGRAMS = Path(__file__).parents[2] / "examples" / "programs"
DESKS = ("langgraph_tools", "openai_agents_handoff")


def kit_of(name: str) -> ProgramKit:
    """The kit in the program's folder."""
    spec = importlib.util.spec_from_file_location(f"{name}_tasks", PROGRAMS / name / "tasks.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    kit = module.kit
    assert isinstance(kit, ProgramKit)
    return kit


def drawn(kit: ProgramKit, split: Split, number: int) -> list[tuple[Task, list[dict[str, str]]]]:
    """Tasks with their mailboxes."""
    found = []
    for task in islice(kit.tasks(seed=0, split=split, families=["desk"]), number):
        environment = kit.environment(task)
        environment.reset(task)
        found.append((task, json.loads((environment.folder() / "mails.json").read_text(encoding="utf-8"))))
        environment.close()
    return found


def asked_for(task: Task, mails: list[dict[str, str]]) -> dict[str, str]:
    """The one mail that the question is about."""
    (mail,) = (mail for mail in mails if mail["sender"] in task.instruction and mail["subject"] in task.instruction)
    return mail


def verdict(kit: ProgramKit, task: Task, answer: str) -> str:
    environment = kit.environment(task)
    environment.reset(task)
    step = environment.finish(ProgramEnd(answer, 0))
    state = environment.state()
    environment.close()
    trajectory = Trajectory("t", task.id, "a@1", (), step.observation, "finished", "rendered", final_state=state)
    return kit.verifier.verify(task, trajectory).verdict


@pytest.mark.parametrize("name", DESKS)
@pytest.mark.parametrize("split", ["train", "heldout"])
def test_the_number_in_the_mail_is_the_answer(name: str, split: Split) -> None:
    kit = kit_of(name)
    for task, mails in drawn(kit, split, 6):
        mail = asked_for(task, mails)
        numbers = {other["id"]: "".join(filter(str.isdigit, other["text"])) for other in mails}
        right = numbers.pop(mail["id"])
        assert len(mails) == 4
        assert right not in task.instruction
        assert {other["subject"] for other in mails if other["sender"] == mail["sender"]} > {mail["subject"]}
        assert {other["sender"] for other in mails if other["subject"] == mail["subject"]} > {mail["sender"]}
        assert [verdict(kit, task, text) for text in (right, f"it is {right}.")] == ["success"] * 2
        wrong = [*numbers.values(), "", "no number", f"{right} or {numbers.popitem()[1]}", f"1{right}"]
        assert {verdict(kit, task, text) for text in wrong} == {"failure"}
        oracle = kit.oracle(task)
        assert oracle is not None
        assert verify(kit.verifier, task, play(kit.environment(task), task, oracle)).is_success


@pytest.mark.parametrize("name", DESKS)
def test_held_out_questions_have_other_words(name: str) -> None:
    kit = kit_of(name)
    words: dict[str, set[str]] = {}
    for split in ("train", "heldout"):
        words[split] = set()
        for task, mails in drawn(kit, split, 30):
            mail = asked_for(task, mails)
            words[split].add(task.instruction.replace(mail["sender"], "").replace(mail["subject"], ""))
    assert (len(words["train"]), len(words["heldout"])) == (3, 2)
    assert not words["train"] & words["heldout"]


@pytest.mark.parametrize("name", DESKS)
def test_the_configuration_is_valid(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(PROGRAMS / name)
    config = load_full_config(Path("upturn.toml"), {})
    for algorithm in ("grpo", "rft"):
        check(config, algorithm)
    trained = config.improved_agent
    assert trained is not None
    assert (trained.name, trained.kind, trained.has_local_model) == ("desk", "program", True)
    assert config.environment.name == "tasks:kit"


def scripted(task: Task, mails: list[dict[str, str]]) -> Callable[[ModelRequest], Any]:
    """A model that calls what it is offered: search, then read or flag, then says the number that it has read."""
    mail, numbers = asked_for(task, mails), count()

    def answer(request: ModelRequest) -> Any:
        offered = {tool.name for tool in request.tools}
        results = [part for message in request.messages for part in message.parts if isinstance(part, ToolResult)]
        if not results:
            wanted = json.dumps({"sender": mail["sender"], "subject": mail["subject"]})
            return answered(ToolCall(f"call_{next(numbers)}", "search", wanted))
        (said,) = (part.text for part in results[-1].parts if isinstance(part, Text))
        if len(results) == 1:
            identity = said.split(" ")[0]
            if "flag" in offered:
                return answered(ToolCall(f"call_{next(numbers)}", "flag", json.dumps({"ids": identity})))
            return answered(ToolCall(f"call_{next(numbers)}", "read", json.dumps({"id": identity})))
        return answered(Text("".join(filter(str.isdigit, said))), finish="stop")

    return answer


@needs_clients
@pytest.mark.parametrize(
    ("name", "calls"),
    [
        ("langgraph_tools", [("gpt-4.1-mini", "read search")] * 3),
        (
            "openai_agents_handoff",
            [("gpt-4.1", "flag search")] * 2 + [("gpt-4.1-mini", "read search")] * 3,
        ),
    ],
)
def test_the_program_answers_as_a_command(name: str, calls: list[tuple[str, str]]) -> None:
    kit = kit_of(name)
    [(task, mails)] = drawn(kit, "heldout", 1)
    command = ProgramCommand((str(FOLDER / "bin" / "python"), str(PROGRAMS / name / "agent.py")))
    with serving(scripted(task, mails)) as served:
        endpoint = Endpoint(served.url, "m", UpstreamConfig(retries=0), "secret")
        agent = ProgramAgent(command, ProgramModels("m", endpoint_model(endpoint)))
        setting = Setting("k", agent, "desk@1", None)
        trajectory = asyncio.run(rollout(RolloutRequest(task, 0, 0), kit.environment, setting))
    assert (trajectory.outcome, trajectory.error) == ("finished", "")
    assert verify(kit.verifier, task, trajectory).is_success
    made = [call for turn in captured_calls(trajectory) for call in turn]
    assert [(call.model, " ".join(sorted(tool.name for tool in call.tools or ()))) for call in made] == calls
    assert not any(call.failure for call in made)

"""The coding harness repairs a file with what a model says, and ends when the model is done."""

import asyncio
import importlib
import shutil
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from tests.agents.model_server import serving
from tests.agents.test_native_calls import answered
from upturn.agents import RolloutRequest, Setting, build, rollout
from upturn.config import Limits, SandboxLimits
from upturn.dialects import ModelRequest, Text
from upturn.environments import verify
from upturn.records import AgentVersion, Trajectory

FOLDER = Path(__file__).parents[2] / "examples" / "programs"


@pytest.fixture
def modules(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(FOLDER))
    return importlib.import_module


def attempted(kit: Any, family: str, script: Any, **parameters: Any) -> tuple[Trajectory, bool, list[Any]]:
    """One attempt in the harness, whether it succeeded, and the bodies of its calls."""
    task = next(islice(kit.tasks(seed=4, split="heldout", families=[family]), 1))
    with serving(script) as served:
        version = AgentVersion(
            "rules", "1", "program", model=served.url, model_name="rules",
            parameters={"command": ["python3", "mini_harness.py"], **parameters},
        )  # fmt: skip
        limits = Limits(max_turns=4, max_seconds=60)
        setting = Setting("k", build(version, limits=limits), version.id, None, limits=limits)
        trajectory = asyncio.run(rollout(RolloutRequest(task, 0, 0), kit.environment, setting))
    return trajectory, verify(kit.verifier, task, trajectory).is_success, served.bodies


@pytest.mark.parametrize("family", ["operator", "seen"])
@pytest.mark.parametrize("is_sandboxed", [False, True])
def test_the_rules_repair_a_file_in_the_harness(modules: Any, family: str, is_sandboxed: bool) -> None:
    if is_sandboxed and shutil.which("bwrap") is None:
        pytest.skip("bubblewrap is not installed")
    kit, rules = modules("repair_tasks").kit, modules("rules_model")

    def script(request: ModelRequest) -> Any:
        messages = [
            {
                "role": message.role,
                "content": "".join(part.text for part in message.parts if isinstance(part, Text)),
            }
            for message in request.messages
        ]
        return answered(Text(rules.answer(messages)), finish="stop")

    sandbox = {"sandbox": asdict(SandboxLimits())} if is_sandboxed else {}
    trajectory, is_success, bodies = attempted(kit, family, script, **sandbox)
    assert (trajectory.outcome, trajectory.error) == ("finished", "")
    assert is_success
    assert len(bodies) == len(trajectory.turns) == {"operator": 2, "seen": 3}[family]
    assert trajectory.turns[-1].text == "done"
    if family == "seen":
        assert trajectory.turns[1].observation.text.startswith("def ")


def test_outputs_fences_and_failures_reach_the_model(modules: Any) -> None:
    said = iter(["```bash\necho a; exit 3\n```", "true", "done"])
    kit = modules("repair_tasks").kit
    trajectory, is_success, bodies = attempted(kit, "operator", lambda _: answered(Text(next(said)), finish="stop"))
    assert not is_success
    assert [message["content"] for message in bodies[-1]["messages"][2::2]] == ["error exit_3: a", "ok"]
    assert trajectory.outcome == "finished"

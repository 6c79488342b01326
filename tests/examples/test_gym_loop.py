"""A Gymnasium environment as a program's own: the reward is the program's answer."""

import asyncio
import importlib
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from tests.agents.model_server import serving
from tests.agents.test_native_calls import KIT, answered, oracle_actions
from upturn.agents import RolloutRequest, Setting, build, rollout
from upturn.config import Limits
from upturn.dialects import ModelRequest, Text
from upturn.environments import verify
from upturn.models import write_call
from upturn.records import AgentVersion

pytest.importorskip("gymnasium", reason="the extra gymnasium is not installed")
FOLDER = Path(__file__).parents[2] / "examples" / "programs"


@pytest.mark.parametrize("is_right", [True, False])
def test_the_reward_of_the_episode_is_the_verdict(monkeypatch: pytest.MonkeyPatch, is_right: bool) -> None:
    monkeypatch.syspath_prepend(str(FOLDER))
    kit = importlib.import_module("gym_loop").kit
    task = next(islice(kit.tasks(seed=2, split="heldout", families=[kit.name]), 1))
    family, split, seed = task.instruction.split()
    lines = [
        write_call(action)
        for action in oracle_actions(next(KIT.tasks(seed=int(seed), split=split, families=[family])))
    ]

    def script(request: ModelRequest) -> Any:
        number = sum(message.role == "assistant" for message in request.messages)
        line = "no.call" if number == 0 else lines[number - 1] if is_right else "user.finish"
        return answered(Text(line), finish="stop")

    with serving(script) as served:
        version = AgentVersion(
            "p", "1", "program", model=served.url, model_name="m", parameters={"import_path": "gym_loop:act"}
        )
        setting = Setting("k", build(version, limits=Limits()), version.id, None)
        trajectory = asyncio.run(rollout(RolloutRequest(task, 0, 0), kit.environment, setting))
    assert (trajectory.outcome, trajectory.error) == ("finished", "")
    assert verify(kit.verifier, task, trajectory).is_success is is_right
    assert served.bodies[1]["messages"][2]["content"].startswith("error ")

"""The programs of examples/programs, unchanged, on the model that ships with Upturn."""

import asyncio
import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from upturn.agents import RolloutRequest, Setting, build, rollout
from upturn.config import Limits
from upturn.environments import draw_tasks, verify
from upturn.loop.run.context import version_of
from upturn.loop.trainers import load_full_config
from upturn.models import Generation, GenerationRequest, load_local, read_call
from upturn.records import Trajectory

PROGRAMS = Path(__file__).parents[2] / "examples" / "programs"


def module(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"example_{path.parent.name}_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


class Scripted:
    """A model that always writes this line."""

    def __init__(self, token_ids: tuple[int, ...]) -> None:
        self._ids = token_ids
        self.prompts: list[tuple[int, ...]] = []

    async def generate(self, request: GenerationRequest) -> Generation:
        self.prompts.append(request.prompt_ids)
        return Generation(self._ids, (-0.5,) * len(self._ids), "stop", "v1")

    def release(self, session: str) -> None:
        pass


def test_the_first_program_is_solved_by_its_models_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    folder = PROGRAMS / "first"
    monkeypatch.syspath_prepend(folder)
    tasks, config = module(folder / "tasks.py"), load_full_config(folder / "upturn.toml", {})
    agent = config.agents[0]
    assert (agent.name, agent.has_local_model, config.improved_agent) == ("mine", True, agent)
    version = version_of(agent, config.agents)
    kit = tasks.kit
    renderer = load_local("nano").renderer()
    task = next(
        drawn
        for drawn in draw_tasks(kit, seed=1, split="train", families=["desk"])
        if drawn.instruction.startswith("file everything")
    )
    action = read_call(tasks.rule(task.instruction, (), None))
    assert action is not None
    model = Scripted(renderer.write(action))

    def attempt() -> Trajectory:
        setting = Setting(
            "k", build(version, limits=Limits(), renderer=renderer), version.id, model, limits=Limits()
        )
        return asyncio.run(rollout(RolloutRequest(task, 0, 0), kit.environment, setting))

    trajectory = attempt()
    assert (trajectory.outcome, trajectory.error) == ("finished", "")
    assert verify(kit.verifier, task, trajectory).is_success
    (row,) = trajectory.rows
    assert model.prompts == [renderer.open(trajectory.turns[0].observation, "")]
    assert row.token_ids[row.spans[0].start :] == model._ids

"""The office by a plain loop: the same tokens as those of an agent that Upturn runs turn by turn."""

import asyncio
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from upturn.agents import Agent, AttemptAgent, Job, RolloutRequest, Setting, build, run_rollouts
from upturn.config import Limits
from upturn.environments import resolve_kit, tools_of
from upturn.models import load_local
from upturn.models.engine import LocalEngine
from upturn.records import AgentVersion, Trajectory

FOLDER = Path(__file__).parents[2] / "examples" / "programs"
KIT = resolve_kit("office")
LIMITS = Limits(max_turns=6, max_tokens=512, max_action_tokens=24)
TASKS = [
    next(islice(KIT.tasks(seed=7, split="heldout", families=[family]), number, None))
    for family, number in (("channel_add", 0), ("channel_post", 0), ("table_filter", 0), ("weekly_report", 1))
]


def attempts(agent: Agent | AttemptAgent, model: Any) -> Sequence[Trajectory]:
    """One after another, so that rounding is the same."""
    setting = Setting("k", agent, "nano@1", LocalEngine(model, slots=1), limits=LIMITS)
    jobs = [Job(RolloutRequest(task, 0, index), setting) for index, task in enumerate(TASKS)]
    return asyncio.run(run_rollouts(jobs, KIT.environment, slots=1))


def test_a_loop_has_the_rows_of_an_ordinary_agent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(FOLDER))
    nano = load_local("nano")
    parts: dict[str, Any] = {"limits": LIMITS, "tools": tools_of(KIT)}
    ordinary = build(AgentVersion("nano", "1", "local_model", model="nano"), renderer=nano.renderer(), **parts)
    version = AgentVersion(
        "nano", "1", "program", model="nano", parameters={"import_path": "office_loop:act", "parallel": 1}
    )
    looped = attempts(build(version, renderer=nano.renderer(), **parts), nano.model)
    expected = attempts(ordinary, nano.model)
    assert [trajectory.rows for trajectory in looped] == [trajectory.rows for trajectory in expected]
    assert [trajectory.outcome for trajectory in looped] == [trajectory.outcome for trajectory in expected]
    for ours, theirs in zip(looped, expected, strict=True):
        assert ours.results == theirs.results
        assert [turn.text for turn in ours.turns] == [turn.text for turn in theirs.turns]
        assert [turn.reward for turn in ours.turns] == [turn.reward for turn in theirs.turns]
    turns = [turn for trajectory in expected for turn in trajectory.turns]
    assert any(turn.action is None for turn in turns), "an answer without a call is among them"
    assert {"malformed", "ok"} < {turn.observation.code for turn in turns}

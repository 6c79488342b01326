"""Shared sections are refused for algorithms on which they have no effect."""

from dataclasses import replace
from types import ModuleType
from typing import cast

import pytest

from benchmarks.errands import MODEL
from upturn.agents.context import Budget
from upturn.config import AgentConfig, CurriculumSettings, RewardConfig, RolloutConfig
from upturn.errors import ConfigError, TrainingError
from upturn.loop.trainers.algorithms.expert_iteration import refuse_rewritten_history
from upturn.loop.trainers.registry import ALGORITHMS
from upturn.loop.trainers.train_command import check_effect
from upturn.models import Renderer

NANO = AgentConfig(name="nano", kind="local_model", model=MODEL)
GUIDED = {"grpo", "ppo", "distillation"}
ON_ROLLOUTS = GUIDED | {"online-dpo", "rejection", "iterated", "star", "self-repair", "rft", "mixture"}


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_each_algorithm_accepts_the_shared_sections_that_it_uses(desk: ModuleType, algorithm: str) -> None:
    sections = {
        "curriculum": (CurriculumSettings(policy="uniform"), GUIDED),
        "rollouts": (RolloutConfig(place="ray"), ON_ROLLOUTS),
        "rewards": (
            RewardConfig(overlong_tokens=64, overlong_buffer=8),
            ON_ROLLOUTS - {"rft", "distillation"} | {"offline"},
        ),
    }
    refused = set()
    for name, (section, _) in sections.items():
        config = replace(desk.config(("solver",)), **{name: section})
        try:
            check_effect(config, algorithm)
        except ConfigError as exc:
            assert f"has no effect with `upturn train {algorithm}`" in str(exc)
            refused.add(name)
    assert refused == {name for name, (_, users) in sections.items() if algorithm not in users}


class _Forking:
    """A renderer whose template may drop earlier thoughts."""

    def __init__(self, keeps: bool) -> None:
        self.keeps = keeps

    def keeps_prefix(self, prompt: str) -> bool:
        return self.keeps

    def next_prompt(self, *arguments: object, **named: object) -> tuple[int, ...]:
        return ()


def test_hints_are_refused_for_a_rewritten_history() -> None:
    refuse_rewritten_history(cast(Renderer, _Forking(keeps=True)), "")
    with pytest.raises(TrainingError, match="a hint cannot be removed from a rewritten history; train with"):
        refuse_rewritten_history(cast(Renderer, _Forking(keeps=False)), "")
    with pytest.raises(
        TrainingError, match=r"has a context budget \(context_tokens = 400\), and a hint cannot be removed"
    ):
        refuse_rewritten_history(
            cast(Renderer, _Forking(keeps=True)), "", budget=Budget(400, 8, 100, 48, low_mark=0.6)
        )

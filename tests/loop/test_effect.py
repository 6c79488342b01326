"""Sections that several ways of learning share are refused where they would do nothing."""

from dataclasses import replace
from types import ModuleType
from typing import cast

import pytest

from benchmarks.errands import MODEL
from upturn.agents.context import Budget
from upturn.config import AgentConfig, CurriculumSettings, RewardConfig, RolloutConfig
from upturn.errors import ConfigError, TrainingError
from upturn.loop.trainers.expert_iteration import refuse_rewritten_history
from upturn.loop.trainers.registry import ALGORITHMS
from upturn.loop.trainers.train_command import check_effect
from upturn.models import Renderer

NANO = AgentConfig(name="nano", kind="local_model", model=MODEL)
GUIDED = {"grpo", "ppo"}
PRACTISING = GUIDED | {"online-dpo", "rejection", "iterated", "star", "self-repair", "rft", "mixture"}


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_each_way_takes_the_shared_sections_that_act_and_refuses_the_others(
    desk: ModuleType, algorithm: str
) -> None:
    sections = {
        "curriculum": (CurriculumSettings(policy="uniform"), GUIDED),
        "rollouts": (RolloutConfig(place="ray"), PRACTISING),
        "rewards": (RewardConfig(overlong_tokens=64, overlong_buffer=8), PRACTISING - {"rft"} | {"offline"}),
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
    """As a template that drops earlier thoughts."""

    def __init__(self, keeps: bool) -> None:
        self.keeps = keeps

    def keeps_prefix(self, prompt: str) -> bool:
        return self.keeps

    def next_prompt(self, *arguments: object, **named: object) -> tuple[int, ...]:
        return ()


def test_hints_are_refused_where_a_template_begins_a_row_with_every_turn() -> None:
    refuse_rewritten_history(cast(Renderer, _Forking(keeps=True)), "")
    with pytest.raises(TrainingError, match="a hint cannot be removed from a rewritten history; train with"):
        refuse_rewritten_history(cast(Renderer, _Forking(keeps=False)), "")
    with pytest.raises(
        TrainingError, match=r"has a context budget \(context_tokens = 400\), and a hint cannot be removed"
    ):
        refuse_rewritten_history(
            cast(Renderer, _Forking(keeps=True)), "", budget=Budget(400, 8, 100, 48, low_mark=0.6)
        )

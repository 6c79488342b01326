"""The demo's plan for each size: its tasks in the office, its training and its bars."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from upturn.config import Config
from upturn.loop.trainers import parse_full_config
from upturn.training.pretraining import OFFICE as OFFICE_RECIPE

Size = Literal["tiny", "brief", "full"]
RULES = "upturn.environments.office.rule_agent:act"
"""Import path of the rule-based agent."""


@dataclass(frozen=True, slots=True)
class DemoPlan:
    """The workload, training and bars of one demo size."""

    trained_families: Sequence[str]
    """Families that the model is trained on."""
    families: Sequence[str]
    """All served families."""
    max_turns: int
    max_tokens: int
    """Maximum tokens of a trajectory, observations included."""
    max_action_tokens: int
    temperature: float
    """Serving and evaluation temperature of the trained agent; training samples at 1."""
    tasks: int
    """Tasks served before training."""
    tasks_after: int
    """Tasks served after the release."""
    tasks_last: int
    """Tasks served after the canary of the damaged version."""
    heldout_tasks: int
    iterations: int
    """GRPO iterations."""
    tasks_per_iteration: int
    group_size: int
    evaluate_every: int
    """Iterations between evaluations."""
    sft_epochs: int
    max_minutes: int
    """Bar of the run's time on two cores."""
    min_success: float | None
    """Bar of final held-out success; None = there are bars by level only."""
    min_success_by_level: Mapping[int, float]
    min_gain: float
    """Bar of the lower limit of the gain in held-out success."""
    min_grpo_gain: float | None
    """Bar of GRPO's gain over SFT, whose lower limit must be above 0; None = no bar."""
    incumbent_share: float
    """Share of the incumbent's weights in the candidate's."""
    final_tasks: int
    """Held-out tasks of the final evaluation; 0 = none."""
    floor_tasks: int
    """Tasks of each family for the verifier's floor and ceiling."""
    arena_tasks: int
    """Tasks of each family for the final comparison of all agents."""
    readiness_points: int
    """Number of trajectories that training requires."""
    canary: Mapping[str, object] | None
    """Settings of a short canary that a candidate enters regardless of its validation, so that every step is shown.
    None = the default settings, after a passed validation."""
    bars_note: str = ""
    """Which bars a run of this size is not meant to meet, and why; empty = it is meant to meet all."""


RULES_ONLY = ("mail_last_writer", "mail_unread_sum")
"""Families that the rule-based agent solves, and that nano is neither pre-trained nor trained on."""
RULES_PARTLY = ("mail_newest", "event_room", "table_total", "channel_post")
"""Families of which the rule-based agent handles some phrasings, and that nano is not pre-trained on."""

OFFICE = DemoPlan(
    trained_families=(*OFFICE_RECIPE.families, *RULES_PARTLY),
    families=(*OFFICE_RECIPE.families, *RULES_PARTLY, *RULES_ONLY),
    max_turns=12,
    max_tokens=512,
    max_action_tokens=48,
    temperature=0.5,
    tasks=2400,
    tasks_after=600,
    tasks_last=96,
    heldout_tasks=780,
    iterations=80,
    tasks_per_iteration=26,
    group_size=8,
    evaluate_every=10,
    sft_epochs=2,
    max_minutes=30,
    min_success=None,
    min_success_by_level={1: 0.85, 2: 0.85, 3: 0.85, 4: 0.60},
    min_gain=0.0,
    min_grpo_gain=None,
    incumbent_share=0.3,
    final_tasks=3000,
    floor_tasks=200,
    arena_tasks=24,
    readiness_points=300,
    canary=None,
)
HALF_KNOWN = (
    *(*RULES_PARTLY, "cell_say", "table_filter", "channel_add"),
    *("event_move_denied", "event_invite_partly", "mail_forward_denied"),
)
"""Families of three levels with the largest gains in minutes: those that nano is not pre-trained on, and six with
little pre-training, among them tasks in apps with faults."""
BRIEF = replace(
    OFFICE,
    trained_families=HALF_KNOWN,
    families=(*HALF_KNOWN, *RULES_ONLY),
    max_turns=10,
    temperature=0.9,
    tasks=780,
    heldout_tasks=400,
    iterations=50,
    tasks_per_iteration=16,
    sft_epochs=1,
    max_minutes=8,
    min_success=0.85,
    min_success_by_level={1: 0.75, 2: 0.75, 3: 0.75},
    min_gain=0.25,
    min_grpo_gain=0.1,
    incumbent_share=0.15,
    final_tasks=0,
)
TINY = replace(
    BRIEF,
    trained_families=RULES_PARTLY,
    families=(*RULES_PARTLY, *RULES_ONLY),
    tasks=180,
    tasks_after=48,
    tasks_last=48,
    heldout_tasks=80,
    iterations=8,
    tasks_per_iteration=8,
    evaluate_every=5,
    sft_epochs=3,
    floor_tasks=10,
    arena_tasks=4,
    readiness_points=60,
    canary={"stages": (0.5, 1.0), "max_candidate_episodes": 200, "safety_margin": 0.05},
    max_minutes=2,
    min_success=None,
    min_success_by_level={1: 0.2, 2: 0.2},
    min_gain=0.0,
    min_grpo_gain=None,
    bars_note="A tiny run shows every step in about a minute. It is not meant to meet the bars of success, gain, "
    "canaries, damage and routing, which need more tasks.",
)
"""Four families that nano is not pre-trained on, in about a minute: a small but visible gain."""
PLANS: Mapping[Size, DemoPlan] = {"tiny": TINY, "brief": BRIEF, "full": OFFICE}


def demo_config(*, seed: int, directory: str, plan: DemoPlan) -> Config:
    """The demo's configuration, as an ``upturn.toml`` could hold it."""
    return parse_full_config(
        {
            "run": {"seed": seed, "directory": directory},
            "readiness": {
                "points": plan.readiness_points,
                "clean_share": 0.95,
                "categories": 5,
                # All addresses are invented, but the wild agent scrambles some into ones that could be real.
                "privacy": False,
            },
            "agents": [
                {"name": "nano", "kind": "local_model", "model": "nano", "temperature": plan.temperature},
                {"name": "rules", "kind": "rule_based", "import_path": RULES},
                {"name": "wild", "kind": "local_model", "model": "nano", "temperature": 1.8},
            ],
            # The policy of all published figures. An agent that is released twice changes often.
            "routing": {"policy": "discounted_thompson", "floor": 0.05},
            "environment": {
                "name": "office",
                "max_turns": plan.max_turns,
                "max_tokens": plan.max_tokens,
                "max_action_tokens": plan.max_action_tokens,
            },
            "tasks": {
                "families": list(plan.families),
                "train_families": list(plan.trained_families),
                "count": plan.tasks,
                "heldout_count": plan.heldout_tasks,
            },
            "rewards": {"weights": {"success": 0.9, "efficiency": 0.1}},
            "sft": {"epochs": plan.sft_epochs},
            "grpo": {
                "iterations": plan.iterations,
                "tasks_per_iteration": plan.tasks_per_iteration,
                "group_size": plan.group_size,
                "evaluate_every": plan.evaluate_every,
                "optimiser": {"learning_rate": 4e-4},
                "decay": "linear",
                "incumbent_share": plan.incumbent_share,
            },
            "curriculum": {"policy": "failure_weighted", "gate": True},
            "loop": {"improve": "nano"},
            "canary": plan.canary or {},
        }
    )

"""What the demo works on in the office, and how long: the plan of each size."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Literal

from upturn.config import Config
from upturn.loop.trainers import parse_full_config
from upturn.training.pretraining import OFFICE as OFFICE_RECIPE

Size = Literal["tiny", "brief", "full"]
RULES = "upturn.environments.office.rule_agent:act"
"""Import path of the agent made of rules."""


@dataclass(frozen=True, slots=True)
class CanarySizes:
    """A short canary, which a candidate enters whatever its validation says, so that every step is shown."""

    stages: Sequence[float]
    max_candidate_tasks: int


@dataclass(frozen=True, slots=True)
class DemoPlan:
    """One demo."""

    learned: Sequence[str]
    """Families that the model is trained on."""
    served: Sequence[str]
    """All that the agents work on."""
    max_turns: int
    max_tokens: int
    """That an attempt may take, all that it is shown included."""
    max_action_tokens: int
    temperature: float
    """At which the trained agent serves and is evaluated; for training it samples at 1."""
    tasks: int
    """Routed to the agents before anything is trained."""
    tasks_after: int
    """The same after the release."""
    tasks_last: int
    """The same after the canary of the degraded version."""
    heldout: int
    iterations: int
    """Of GRPO."""
    tasks_per_iteration: int
    group_size: int
    """Rollouts of each of these tasks."""
    evaluate_every: int
    """Iterations between evaluations."""
    sft_epochs: int
    minutes: int
    """That it may take on two cores."""
    success: float | None
    """What success on held-out tasks must be in the end; None = levels have bars of their own."""
    success_by_level: Mapping[int, float]
    """The same by level."""
    gain: float
    """That held-out success must surely gain more than, over the version that served first."""
    gain_by_practice: float | None
    """That practice must add to supervised training, and surely something; None = there is no bar."""
    incumbent_share: float
    """Of the weights that served before, in the candidate's."""
    work: int
    """Held-out tasks that the last version works on beside its heldout, for figures of its work; 0 = none."""
    floor_tasks: int
    """Of each family, on which the verifier must give nothing for cheating and everything to the oracle."""
    arena_tasks: int
    """Of each family, on which all agents are compared in the end."""
    readiness_points: int
    """Trajectories that training needs."""
    canary: CanarySizes | None
    """None = the defaults; a candidate enters them only if its validation passes."""


RULES_ONLY = ("mail_last_writer", "mail_unread_sum")
"""Families of the office that the rules know whole, and nano neither was shown nor learns."""
RULES_PARTLY = ("mail_newest", "event_room", "table_total", "channel_post")
"""Families of the office of which the rules know some wordings, and nano was never shown."""

OFFICE = DemoPlan(
    learned=(*OFFICE_RECIPE.families, *RULES_PARTLY),
    served=(*OFFICE_RECIPE.families, *RULES_PARTLY, *RULES_ONLY),
    max_turns=12,
    max_tokens=512,
    max_action_tokens=48,
    temperature=0.5,
    tasks=2400,
    tasks_after=600,
    tasks_last=96,
    heldout=780,
    iterations=80,
    tasks_per_iteration=26,
    group_size=8,
    evaluate_every=10,
    sft_epochs=2,
    minutes=30,
    success=None,
    success_by_level={1: 0.85, 2: 0.85, 3: 0.85, 4: 0.60},
    gain=0.0,
    gain_by_practice=None,
    incumbent_share=0.3,
    work=3000,
    floor_tasks=200,
    arena_tasks=24,
    readiness_points=300,
    canary=None,
)
HALF_KNOWN = (
    *(*RULES_PARTLY, "cell_say", "table_filter", "channel_add"),
    *("event_move_denied", "event_invite_partly", "mail_forward_denied"),
)
"""Families of three levels with most to learn in minutes: those that nano was never shown, and six that it was
shown little of, among them tasks that it knows in apps that fail."""
BRIEF = replace(
    OFFICE,
    learned=HALF_KNOWN,
    served=(*HALF_KNOWN, *RULES_ONLY),
    max_turns=10,
    temperature=0.9,
    tasks=780,
    heldout=400,
    iterations=50,
    tasks_per_iteration=16,
    sft_epochs=1,
    minutes=8,
    success=0.85,
    success_by_level={1: 0.75, 2: 0.75, 3: 0.75},
    gain=0.25,
    gain_by_practice=0.1,
    incumbent_share=0.15,
    work=0,
)
TINY = replace(
    BRIEF,
    learned=RULES_PARTLY,
    served=(*RULES_PARTLY, *RULES_ONLY),
    tasks=180,
    tasks_after=48,
    tasks_last=48,
    heldout=80,
    iterations=8,
    tasks_per_iteration=8,
    evaluate_every=5,
    sft_epochs=3,
    floor_tasks=10,
    arena_tasks=4,
    readiness_points=60,
    canary=CanarySizes(stages=(0.5, 1.0), max_candidate_tasks=150),
    minutes=2,
    success=None,
    success_by_level={1: 0.2, 2: 0.2},
    gain=0.0,
    gain_by_practice=None,
)
"""Four families that nano was never shown, in about a minute: too little for good work, yet it gets better."""
PLANS: Mapping[Size, DemoPlan] = {"tiny": TINY, "brief": BRIEF, "full": OFFICE}


def demo_config(*, seed: int, directory: str, plan: DemoPlan) -> Config:
    """The demo's configuration; it is an ordinary ``upturn.toml`` in all but the file."""
    return parse_full_config(
        {
            "run": {"seed": seed, "directory": directory},
            "readiness": {
                "points": plan.readiness_points,
                "clean_share": 0.95,
                "categories": 5,
                # All are invented there, but the wild agent scrambles addresses until they could be somebody's.
                "privacy": False,
            },
            "agents": [
                {"name": "nano", "kind": "local_model", "model": "nano", "temperature": plan.temperature},
                {"name": "rules", "kind": "rule_based", "import_path": RULES},
                {"name": "wild", "kind": "local_model", "model": "nano", "temperature": 1.8},
            ],
            "environment": {
                "name": "office",
                "max_turns": plan.max_turns,
                "max_tokens": plan.max_tokens,
                "max_action_tokens": plan.max_action_tokens,
            },
            "tasks": {
                "families": list(plan.served),
                "train_families": list(plan.learned),
                "count": plan.tasks,
                "heldout_count": plan.heldout,
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
            "canary": {} if plan.canary is None else asdict(plan.canary),
        }
    )

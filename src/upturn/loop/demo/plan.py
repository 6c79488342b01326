"""What the demo works on, and how long: a few families of the office, many of them, or errands."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from upturn.config import Config
from upturn.environments.errands import LEARNED
from upturn.errors import UnknownNameError
from upturn.loop.trainers import parse_full_config
from upturn.training.pretraining import OFFICE as OFFICE_COURSE

Size = Literal["full", "tiny"]


@dataclass(frozen=True, slots=True)
class DemoPlan:
    """One demo."""

    environment: str
    model: str
    rules: str
    """Import path of the agent made of rules."""
    learned: Sequence[str]
    """Families that the model practises."""
    served: Sequence[str]
    """All that the agents are given; empty = every family of the environment."""
    max_turns: int
    max_tokens: int
    """That an attempt may take, all that it is shown included."""
    max_action_tokens: int
    temperature: float
    """At which the agent that is trained serves and sits its exams; it practises at 1."""
    tasks: int
    """Routed to the agents before anything is trained."""
    tasks_after: int
    """The same after the release."""
    heldout: int
    iterations: int
    """Of GRPO."""
    tasks_per_iteration: int
    is_guided: bool
    """Whether a curriculum chooses what is practised, by what fails now, and lets rest what always succeeds."""
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
    """Held-out tasks that the last version works on beside its exam, for figures of its work; 0 = none."""


RULES_ONLY = ("mail_last_writer", "mail_unread_sum")
"""Families of the office that the rules know whole, and nano neither was shown nor learns."""
RULES_PARTLY = ("mail_newest", "event_room", "table_total", "channel_post")
"""Families of the office of which the rules know some wordings, and nano was never shown."""

OFFICE = DemoPlan(
    environment="office",
    model="nano",
    rules="upturn.environments.office.rule_agent:act",
    learned=(*OFFICE_COURSE.families, *RULES_PARTLY),
    served=(*OFFICE_COURSE.families, *RULES_PARTLY, *RULES_ONLY),
    max_turns=12,
    max_tokens=512,
    max_action_tokens=48,
    temperature=0.5,
    tasks=2400,
    tasks_after=600,
    heldout=780,
    iterations=80,
    tasks_per_iteration=26,
    is_guided=True,
    sft_epochs=2,
    minutes=30,
    success=None,
    success_by_level={1: 0.85, 2: 0.85, 3: 0.85, 4: 0.60},
    gain=0.0,
    gain_by_practice=None,
    incumbent_share=0.3,
    work=3000,
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
ERRANDS = DemoPlan(
    environment="errands",
    model="nano-errands",
    rules="upturn.environments.errands.rules:act",
    learned=LEARNED,
    served=(),
    max_turns=10,
    max_tokens=240,
    max_action_tokens=40,
    temperature=1.0,
    tasks=960,
    tasks_after=600,
    heldout=540,
    iterations=200,
    tasks_per_iteration=24,
    is_guided=False,
    sft_epochs=3,
    minutes=8,
    success=0.85,
    success_by_level={1: 0.75, 2: 0.75, 3: 0.75},
    gain=0.25,
    gain_by_practice=0.1,
    incumbent_share=0.15,
    work=0,
)
PLANS: Mapping[str, DemoPlan] = {"office-brief": BRIEF, "office": OFFICE, "errands": ERRANDS}
"""By what ``--environment`` is told."""


def plan_named(name: str) -> DemoPlan:
    """The plan of that name; UnknownNameError lists those that there are."""
    if name not in PLANS:
        raise UnknownNameError(f"no demo in an environment {name!r}; known: {', '.join(PLANS)}")
    return PLANS[name]


def demo_config(*, seed: int, size: Size, directory: str, plan: DemoPlan) -> Config:
    """The demo's configuration; it is an ordinary ``upturn.toml`` in all but the file."""
    is_full = size == "full"
    return parse_full_config(
        {
            "run": {"seed": seed, "directory": directory},
            "readiness": {
                "points": 300 if is_full else 60,
                "clean_share": 0.95,
                "categories": 5,
                # All are invented there, but the wild agent scrambles addresses until they could be somebody's.
                "privacy": plan.environment != "office",
            },
            "agents": [
                {"name": "nano", "kind": "local_model", "model": plan.model, "temperature": plan.temperature},
                {"name": "rules", "kind": "rule_based", "import_path": plan.rules},
                {"name": "wild", "kind": "local_model", "model": plan.model, "temperature": 1.8},
            ],
            "environment": {
                "name": plan.environment,
                "max_turns": plan.max_turns,
                "max_tokens": plan.max_tokens,
                "max_action_tokens": plan.max_action_tokens,
            },
            "tasks": {
                "families": list(plan.served),
                "train_families": list(plan.learned),
                "count": plan.tasks if is_full else 96,
                "heldout_count": plan.heldout if is_full else 36,
            },
            "rewards": {"weights": {"success": 0.9, "efficiency": 0.1}},
            "sft": {"epochs": plan.sft_epochs if is_full else 1},
            "grpo": {
                "iterations": plan.iterations if is_full else 2,
                "tasks_per_iteration": plan.tasks_per_iteration if is_full else 6,
                "group_size": 8 if is_full else 4,
                "evaluate_every": 10 if is_full else 1,
                "optimiser": {"learning_rate": 4e-4},
                "decay": "linear",
                "incumbent_share": plan.incumbent_share,
            },
            "curriculum": {"policy": "failure_weighted", "gate": True} if plan.is_guided else False,
            "loop": {"improve": "nano"},
            "canary": {} if is_full else {"stages": [0.5, 1.0], "max_candidate_tasks": 60},
        }
    )

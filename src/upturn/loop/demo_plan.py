"""What the demo works on, and how long: a few families of the office, all that its model learns, or errands."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from upturn.config import Config, parse_config
from upturn.environments.errands import LEARNED
from upturn.errors import UnknownNameError

Size = Literal["full", "tiny"]


@dataclass(frozen=True, slots=True)
class DemoPlan:
    """One demo."""

    name: str
    """What ``--environment`` says; empty = it is left out."""
    environment: str
    model: str
    rules: str
    """Import path of the agent made of rules."""
    learned: Sequence[str]
    """Families that the model practises."""
    served: Sequence[str]
    """All that the agents are given."""
    max_turns: int
    max_tokens: int
    """That an attempt may take, all that it is shown included."""
    max_action_tokens: int
    tasks: int
    """Routed to the agents before anything is trained."""
    tasks_after: int
    """The same after the release."""
    heldout: int
    iterations: int
    """Of GRPO."""
    tasks_per_iteration: int
    sft_epochs: int
    minutes: int
    """That it may take on two cores."""
    success: float | None
    """What success on held-out tasks must be in the end; None = levels have bars of their own."""
    success_by_level: Mapping[int, float]
    """The same by level."""
    work: int
    """Held-out tasks that the last version works on beside its exam, for figures of its work; 0 = none."""


FEW = (
    *("mail_number", "event_move", "chat_number"),
    *("mail_reply", "chat_message", "event_move_denied"),
    *("mail_to_book", "chat_answer", "event_invite_partly"),
)
"""Three families of each level from 1 to 3 that the short demo practises."""
OFFICE_LEARNED = (
    *("mail_number", "mail_flag", "mail_move", "event_move", "event_invite", "chat_number", "cell_set"),
    "orders_in_a_mail",
    *("mail_reply", "mail_forward", "event_move_after", "chat_message", "reply_outside", "sensitive_sorted"),
    *("cell_set_relocated", "event_move_denied"),
    *("mail_to_book", "book_to_mail", "chat_answer", "mail_move_partly", "event_invite_partly"),
    "mail_forward_denied",
    *("price_from_attachment_to_slide", "late_one_reminded", "decisions_to_slide", "budget_mailed_to_whoever_asks"),
)
"""Families that ``nano`` was shown: levels 1 to 4, some with faults, some with traps."""
RULES_ONLY = ("mail_last_writer", "mail_unread_sum")
"""Families of the office that the rules know whole, and nano was never shown."""

_OFFICE = "upturn.environments.office.rules:act"
BRIEF = DemoPlan(
    name="",
    environment="office",
    model="nano",
    rules=_OFFICE,
    learned=FEW,
    served=(*FEW, *RULES_ONLY),
    max_turns=8,
    max_tokens=320,
    max_action_tokens=40,
    tasks=960,
    tasks_after=600,
    heldout=540,
    iterations=80,
    tasks_per_iteration=18,
    sft_epochs=2,
    minutes=8,
    success=0.85,
    success_by_level={1: 0.75, 2: 0.75, 3: 0.75},
    work=0,
)
OFFICE = DemoPlan(
    name="office",
    environment="office",
    model="nano",
    rules=_OFFICE,
    learned=OFFICE_LEARNED,
    served=(*OFFICE_LEARNED, *RULES_ONLY),
    max_turns=12,
    max_tokens=512,
    max_action_tokens=48,
    tasks=2400,
    tasks_after=600,
    heldout=780,
    iterations=120,
    tasks_per_iteration=26,
    sft_epochs=3,
    minutes=30,
    success=None,
    success_by_level={1: 0.85, 2: 0.85, 3: 0.85, 4: 0.60},
    work=3000,
)
ERRANDS = DemoPlan(
    name="errands",
    environment="errands",
    model="nano-errands",
    rules="upturn.environments.errands.rules:act",
    learned=LEARNED,
    served=(),
    max_turns=10,
    max_tokens=240,
    max_action_tokens=40,
    tasks=960,
    tasks_after=600,
    heldout=540,
    iterations=200,
    tasks_per_iteration=24,
    sft_epochs=3,
    minutes=8,
    success=0.85,
    success_by_level={1: 0.75, 2: 0.75, 3: 0.75},
    work=0,
)
PLANS: Mapping[str, DemoPlan] = {plan.name: plan for plan in (BRIEF, OFFICE, ERRANDS)}


def plan_named(name: str) -> DemoPlan:
    """The plan for what ``--environment`` says; UnknownNameError lists what there is."""
    if name not in PLANS:
        known = ", ".join(filter(None, PLANS))
        raise UnknownNameError(f"no demo in an environment {name!r}; known: {known}")
    return PLANS[name]


def demo_config(*, seed: int, size: Size, directory: str, plan: DemoPlan = BRIEF) -> Config:
    """The demo's configuration; it is an ordinary ``upturn.toml`` in all but the file."""
    is_full = size == "full"
    return parse_config(
        {
            "run": {"seed": seed, "directory": directory},
            "readiness": {
                "points": 300 if is_full else 60,
                "clean_share": 0.95,
                "categories": 5,
                # Everybody there is invented, but the wild agent scrambles addresses until they could be somebody's.
                "privacy": plan.environment != "office",
            },
            "agents": [
                {"name": "nano", "kind": "local_model", "model": plan.model},
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
                "count": plan.tasks if is_full else 96,
                "heldout_count": plan.heldout if is_full else 36,
            },
            "rewards": {"weights": {"success": 0.9, "efficiency": 0.1}},
            "sft": {"epochs": plan.sft_epochs if is_full else 1, "learning_rate": 1e-3},
            "grpo": {
                "families": list(plan.learned),
                "iterations": plan.iterations if is_full else 2,
                "tasks_per_iteration": plan.tasks_per_iteration if is_full else 6,
                "attempts": 8 if is_full else 4,
                "evaluate_every": 10 if is_full else 1,
                "learning_rate": 4e-4,
                "decay": "linear",
                "incumbent_share": 0.15,
            },
            "loop": {"improve": "nano"},
            "canary": {} if is_full else {"stages": [0.5, 1.0], "max_candidate_tasks": 60},
        }
    )

"""Tasks over several apps: the oracle uses only information that it has seen, and needs every read."""

from collections.abc import Callable, Iterable
from typing import TypeAlias

from upturn.environments.office.families.cross_app import MEETINGS, PEOPLE, TRANSFERS, WORKFLOWS
from upturn.environments.office.families.files import DECKS, FORMATTING, LIBRARY
from upturn.environments.office.families.robustness import OBSTACLES, SAFETY
from upturn.records import Action, Evaluation, Task, Trajectory

Rollout: TypeAlias = Callable[[Task, Iterable[Action]], tuple[Trajectory, Evaluation]]
FAMILIES_ACROSS = (*TRANSFERS, *MEETINGS, *WORKFLOWS, *OBSTACLES, *SAFETY, *FORMATTING, *DECKS, *LIBRARY, *PEOPLE)
NAMES = [family.name for family in FAMILIES_ACROSS]

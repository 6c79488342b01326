"""The world model on a toy: rollouts are predictions of the lamp's colour.

The model is first trained on the form of an observation, a colour and an end token, by a lamp that is broken seven
times in ten and then shows a random colour. Afterwards it knows little about which button shows which colour.
"""

from collections.abc import Sequence

import numpy as np

from benchmarks.algorithms.token_budget import BudgetedSampler, TokenBudget
from benchmarks.algorithms.toy import ASK, FIRST, SHOWN
from benchmarks.algorithms.toy_policy import MAX_LENGTH, ToyPolicy
from benchmarks.algorithms.toy_training import ToyRun, run_options
from upturn.models.engine import LocalEngine
from upturn.records import Observation
from upturn.training import supervised_rows
from upturn.training.algorithms.sft import SftSettings, run_sft
from upturn.training.algorithms.world_model import Predictor, WorldModelSettings, run_world_model
from upturn.training.data import Transition
from upturn.training.runs import RunOptions

_OBSERVATIONS = 1_024
_CORRECT_SHARE = 0.3
"""Share of correct observations in the preparation."""
_UNLIMITED = 1 << 62


class TokenObservations:
    """An ``ObservationWriter`` whose texts are token ids separated by spaces."""

    prefix = (SHOWN,)
    stop_ids = (ASK,)

    def write(self, observation: Observation) -> tuple[int, ...]:
        """Token ids with the end token."""
        return (*map(int, observation.text.split()), ASK)

    def read(self, token_ids: Sequence[int]) -> str | None:
        """The text; None without an end token."""
        return " ".join(map(str, token_ids[:-1])) if token_ids and token_ids[-1] == ASK else None


def train_form(run: ToyRun, policy: ToyPolicy, settings: SftSettings) -> None:
    """Trains the model to write a colour and an end token."""
    toy, rng = policy.toy, np.random.default_rng([run.seed, 2])
    names = list(toy.openings)
    demonstrations = []
    for index in range(_OBSERVATIONS):
        name = names[int(rng.integers(len(names)))]
        is_correct, other = rng.random() < _CORRECT_SHARE, int(rng.integers(FIRST, toy.vocabulary))
        written = toy.best(name).written if is_correct else [[other, ASK]]
        demonstrations.append(policy.demonstration(name, written, index=index))
    run_sft(policy.model, supervised_rows(demonstrations), settings, RunOptions(run.seed, run.folder / "guessing"))


def train_world_model(run: ToyRun, policy: ToyPolicy, settings: WorldModelSettings) -> None:
    """Trains on one transition per button."""
    transitions = [
        Transition(f"{name}/0", name, "lamp.press", opening, written, " ".join(map(str, written[:-1])))
        for name, opening in policy.toy.openings.items()
        for (written,) in [policy.toy.best(name).written]
    ]
    budget = TokenBudget(_UNLIMITED)
    engine = LocalEngine(policy.model, slots=64, max_length=MAX_LENGTH)
    predictor = Predictor(BudgetedSampler(engine, budget), TokenObservations())
    run_world_model(policy.model, predictor, transitions, settings, run_options(run, policy))
    policy.tokens += budget.tokens

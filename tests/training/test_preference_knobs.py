"""No preference setting is parsed and then ignored: each changes the gradient or the pairs."""

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import PreTrainedModel

from upturn.config import OptimiserSettings
from upturn.records import PreferencePair, RatedTrajectory, Task, Trajectory
from upturn.training import ScoredGroup, ScoredTrajectory, StateValue
from upturn.training.algorithms.dpo import PairBatches
from upturn.training.algorithms.kto import KtoSettings, rated_steps
from upturn.training.data.pair_mining import mine_pairs
from upturn.training.data.pair_row import add_reference, pair_rows
from upturn.training.optimisation.trainer import Trainer
from upturn.training.pair_settings import PairObjectiveSettings, PairSettings
from upturn.training.run_settings import SAVING_SETTINGS
from upturn.training.stream import Minibatch

Model = Callable[..., PreTrainedModel]
Make = Callable[..., Trajectory]
STILL = OptimiserSettings(learning_rate=1e-12, max_grad_norm=1e9)
OBJECTIVE: dict[str, Any] = {
    "kind": "ipo",
    "beta": 0.5,
    "label_smoothing": 0.1,
    "is_length_normalised": True,
    "sft_coefficient": 1.0,
}
TURN = PairSettings(by="turn")
PAIRS: dict[str, tuple[PairSettings, Any]] = {
    "by": (PairSettings(), "turn"),
    "min_margin": (PairSettings(), 0.7),
    "valued_by": (TURN, "state_values"),
    "monte_carlo_share": (TURN, 0.25),
    "gamma": (PairSettings(), 0.1),
}
KTO: dict[str, Any] = {"beta": 0.5, "desirable_weight": 2.0, "undesirable_weight": 2.0, "batch_trajectories": 1}
OF_A_RUN = {"epochs", "optimiser", "decay", "evaluate_every", "patience", "keep", *SAVING_SETTINGS}


def test_all_preference_settings_are_tested() -> None:
    assert OBJECTIVE.keys() == {field.name for field in fields(PairObjectiveSettings)}
    elsewhere = {"continuations"}  # how states are measured, which is whose samples them
    assert PAIRS.keys() | elsewhere == {field.name for field in fields(PairSettings)}
    assert KTO.keys() | OF_A_RUN == {field.name for field in fields(KtoSettings)}


def _gradient(model: PreTrainedModel, minibatch: Minibatch) -> Tensor:
    Trainer(model, STILL).step(minibatch)
    return torch.cat([parameter.grad.flatten() for parameter in model.parameters() if parameter.grad is not None])


def _trajectories(make: Make) -> list[Trajectory]:
    ends = ((7, 8, 9), (5,))
    return [
        make((1, 3, 2, *end), ((0, 3, 3 + len(end)),), name=str(at), task="task") for at, end in enumerate(ends)
    ]


@pytest.mark.parametrize("name", OBJECTIVE)
def test_every_objective_setting_changes_the_gradient(tiny_model: Model, make_trajectory: Make, name: str) -> None:
    chosen, rejected = _trajectories(make_trajectory)
    pairs = [PreferencePair("p", chosen, rejected, "group")]
    reference = Trainer(tiny_model(1), STILL).score

    def gradient(objective: PairObjectiveSettings) -> Tensor:
        referenced = add_reference(pair_rows(pairs, objective, "initial"), reference)
        return _gradient(tiny_model(0), PairBatches(referenced, 1, objective).minibatch([0]))

    plain = PairObjectiveSettings()
    changed = gradient(replace(plain, **{name: OBJECTIVE[name]}))
    assert float((changed - gradient(plain)).norm()) > 1e-3 * float(changed.norm())


@pytest.mark.parametrize("name", PAIRS)
def test_every_pairing_setting_changes_the_pairs(make_trajectory: Make, name: str) -> None:
    """One earns .6 soon, the other 1 late; measured states and the critic think otherwise."""
    earned, measured = ((0.6, 0.0), (0.0, 1.0)), (0.9, 0.1)
    members = tuple(
        ScoredTrajectory(
            make_trajectory((1, 2, 5 + at, 3, 9), ((0, 2, 3), (1, 4, 5)), name=str(at)),
            rewards,
            (StateValue(0.5, 4), StateValue(after, 4), StateValue(0.0, None)),
        )
        for at, (rewards, after) in enumerate(zip(earned, measured, strict=True))
    )
    group = ScoredGroup(Task("task", "", "", ""), members)

    def critic(_: ScoredGroup) -> list[list[float]]:
        return [[5.0, 0.0], [0.0, 0.0]]

    def mine(pairing: PairSettings) -> object:
        return mine_pairs([group], pairing, critic if pairing.monte_carlo_share < 1 else None).pairs

    before, value = PAIRS[name]
    assert mine(before) != mine(replace(before, **{name: value}))


@pytest.mark.parametrize("name", KTO)
def test_every_kto_setting_changes_the_gradient(tiny_model: Model, make_trajectory: Make, name: str) -> None:
    rated = [RatedTrajectory(each, at == 0) for at, each in enumerate(_trajectories(make_trajectory))]
    reference = Trainer(tiny_model(1), STILL).score

    def gradient(settings: KtoSettings) -> Tensor:
        steps = rated_steps(rated, settings, 0, reference)
        return _gradient(tiny_model(0), steps.unit(0).minibatches[0])

    changed = gradient(replace(KtoSettings(), **{name: KTO[name]}))
    assert float((changed - gradient(KtoSettings())).norm()) > 1e-3 * float(changed.norm())

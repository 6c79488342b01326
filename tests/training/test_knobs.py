"""No setting is parsed and then ignored: each field of each section changes the gradient or the samples."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, replace
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch

from upturn.records import Outcome, Task, Trajectory
from upturn.training import ScoredGroup, ScoredTrajectory
from upturn.training.advantages import AdvantageSettings
from upturn.training.algorithms.grpo import GrpoSettings
from upturn.training.algorithms.policy_gradient import PolicyGradient
from upturn.training.loss import TokenBatch
from upturn.training.optimisation.batch import written_tokens
from upturn.training.policy_settings import (
    DynamicSamplingSettings,
    EntropySettings,
    KernelSettings,
    KlSettings,
    MismatchSettings,
    ObjectiveSettings,
)
from upturn.training.row import FloatArray, TrainingRow

Make = Callable[..., Trajectory]
BASE = GrpoSettings(iterations=3, minibatches=1, evaluate_every=None, keep="final")
KL = KlSettings(0.1)
BONUS = EntropySettings(0.1)
ADAPTIVE = KlSettings(0.1, target=0.01, horizon=100)
WEIGHTED = MismatchSettings("token", 1.1)
VESPO = ObjectiveSettings("vespo")
MASKED = MismatchSettings(mask="token", mask_low=0.9, mask_high=1.2)


class Knob(NamedTuple):
    before: Any
    """Of one settings class; the same with one field changed is ``after``."""
    after: Any


def _objective(**changes: Any) -> Knob:
    before = ObjectiveSettings(clip_low=0.2, clip_high=0.2)
    return Knob(before, replace(before, **changes))


KNOBS: dict[type, dict[str, Knob]] = {
    ObjectiveSettings: {
        "kind": _objective(kind="cispo"),
        "clip_low": _objective(clip_low=0.5),
        "clip_high": _objective(clip_high=0.5),
        "dual_clip": _objective(dual_clip=1.25),
        "gate_positive": Knob(ObjectiveSettings("sapo"), ObjectiveSettings("sapo", gate_positive=3.0)),
        "gate_negative": Knob(ObjectiveSettings("sapo"), ObjectiveSettings("sapo", gate_negative=3.0)),
        "kernel": Knob(VESPO, replace(VESPO, kernel=KernelSettings(rate_negative=4.0))),
        "stale_limit": _objective(stale_limit=0.01),
        "aggregation": _objective(aggregation="sequence_mean"),
        "constant_tokens": Knob(
            ObjectiveSettings(aggregation="constant", constant_tokens=8),
            ObjectiveSettings(aggregation="constant", constant_tokens=9),
        ),
        "kl": _objective(kl=KL),
        "entropy": _objective(entropy=BONUS),
        "mask_truncated": _objective(mask_truncated=True),
    },
    EntropySettings: {
        "coefficient": Knob(BONUS, replace(BONUS, coefficient=0.2)),
        "floor": Knob(BONUS, replace(BONUS, floor=0.5)),  # the recorded log-probs are −1
    },
    KernelSettings: {
        name: Knob(KernelSettings(), KernelSettings(**{name: 4.0}))
        for name in ("shape_positive", "rate_positive", "shape_negative", "rate_negative")
    },
    KlSettings: {
        "coefficient": Knob(KL, replace(KL, coefficient=0.2)),
        "estimator": Knob(KL, replace(KL, estimator="k2")),
        "unbiased": Knob(KL, replace(KL, unbiased=True)),
        "target": Knob(ADAPTIVE, replace(ADAPTIVE, target=10.0)),
        "horizon": Knob(ADAPTIVE, replace(ADAPTIVE, horizon=50)),
    },
    MismatchSettings: {
        "weight": Knob(WEIGHTED, replace(WEIGHTED, weight="sequence")),
        "weight_cap": Knob(WEIGHTED, replace(WEIGHTED, weight_cap=1.3)),
        "mask": Knob(MASKED, replace(MASKED, mask="sequence")),
        "mask_low": Knob(MASKED, replace(MASKED, mask_low=0.5)),
        "mask_high": Knob(MASKED, replace(MASKED, mask_high=2.0)),
    },
    DynamicSamplingSettings: {
        "groups": Knob(DynamicSamplingSettings(2), DynamicSamplingSettings(3)),
        "max_rounds": Knob(DynamicSamplingSettings(9, 2), DynamicSamplingSettings(9, 3)),
    },
}
ALGORITHM = ("minibatches", "passes", "objective", "advantage", "mismatch", "dynamic_sampling")
"""The fields of GrpoSettings that the algorithm reads; the others belong to the run and the optimiser."""


def _settings(part: Any) -> GrpoSettings:
    if isinstance(part, ObjectiveSettings):
        return replace(BASE, objective=part)
    if isinstance(part, KernelSettings):
        return replace(BASE, objective=replace(VESPO, kernel=part))
    if isinstance(part, KlSettings):
        return replace(BASE, objective=ObjectiveSettings(kl=part))
    if isinstance(part, EntropySettings):
        return replace(BASE, objective=ObjectiveSettings(entropy=part))
    if isinstance(part, MismatchSettings):
        return replace(BASE, mismatch=part)
    return replace(BASE, dynamic_sampling=part)


def _groups(make: Make, name: str, rewards: Sequence[float]) -> list[ScoredGroup]:
    task = Task(name, "", "", "")
    members = []
    for index, reward in enumerate(rewards):
        length = 2 + index
        tokens = (1, 2, *range(3, 3 + length))
        trajectory = make(
            tokens, ((0, 2, 2 + length),), name=f"{name}/{index}", task=name, logprobs=[-1.0] * length
        )
        outcome: Outcome = "step_limit" if index == 1 else "finished"
        members.append(ScoredTrajectory(replace(trajectory, outcome=outcome), (reward,)))
    return [ScoredGroup(task, tuple(members))]


def _shifted(shifts: Sequence[float]) -> Callable[[Sequence[TrainingRow]], list[FloatArray]]:
    """Log-probs −1 plus the shifts in turn."""
    return lambda rows: [
        np.asarray(
            [-1 + shifts[(index + position) % len(shifts)] for position in range(len(row.positions))], np.float32
        )
        for index, row in enumerate(rows)
    ]


def _outcome(make: Make, settings: GrpoSettings) -> list[object]:
    """Loss and gradient of each step of three iterations, and the sampled tokens."""
    algorithm = PolicyGradient(
        lambda index: _groups(make, f"{index}", [1.0, 0.0, 0.2]) + _groups(make, f"{index}b", [0.5, 0.0, 0.6]),
        settings,
        0,
        refill=(lambda index, number: _groups(make, f"{index}r{number}", [0.0, 1.0]))
        if settings.dynamic_sampling
        else None,
        scorer=_shifted([0.0, 0.15, -0.15, 0.3]) if settings.mismatch else None,
        reference=_shifted([0.4, -0.3]) if settings.objective.kl else None,
    )
    return [step for index in range(3) for step in _steps(algorithm, index)]


def _steps(algorithm: PolicyGradient, index: int) -> Iterator[object]:
    unit = algorithm.unit(index)
    yield unit.metrics["written_tokens"]
    for (stream,) in unit.minibatches:
        tokens = written_tokens(stream.rows)
        drifted = np.concatenate(_shifted([0.3, -0.3, 0.05, -0.5, 0.5])(stream.rows))
        logprobs = torch.from_numpy(drifted).requires_grad_()
        names = ("old_logprobs", "weights", "corrections", "reference_logprobs", "sequences")
        columns = {name: torch.from_numpy(getattr(tokens, name)) for name in names}
        mask = torch.ones(len(logprobs), dtype=torch.bool)
        batch = TokenBatch(logprobs, mask=mask, entropies=-logprobs, **columns)
        losses = stream.objective.losses(batch) * torch.from_numpy(tokens.scales)
        (losses.sum() / stream.denominator).backward()
        assert logprobs.grad is not None
        yield logprobs.grad.tolist()


@pytest.mark.parametrize(
    ("settings", "name"), [(settings, name) for settings, knobs in KNOBS.items() for name in knobs]
)
def test_every_field_changes_the_gradient_or_the_samples(make_trajectory: Make, settings: type, name: str) -> None:
    before, after = KNOBS[settings][name]
    assert [
        field.name for field in fields(settings) if getattr(before, field.name) != getattr(after, field.name)
    ] == [name]
    assert _outcome(make_trajectory, _settings(before)) != _outcome(make_trajectory, _settings(after))


@pytest.mark.parametrize("settings", KNOBS)
def test_all_fields_are_tested(settings: type) -> None:
    assert list(KNOBS[settings]) == [field.name for field in fields(settings)]


@pytest.mark.parametrize(
    "changes",
    [
        {"minibatches": 2},
        {"passes": 2},
        {"objective": ObjectiveSettings("cispo")},
        {"advantage": AdvantageSettings(scale="std")},
        {"mismatch": MismatchSettings()},
        {"dynamic_sampling": DynamicSamplingSettings(5)},
    ],
    ids=ALGORITHM,
)
def test_every_field_of_the_algorithm_changes_the_gradient(make_trajectory: Make, changes: dict[str, Any]) -> None:
    assert _outcome(make_trajectory, BASE) != _outcome(make_trajectory, replace(BASE, **changes))


def test_unrelated_fields_do_not_change_the_gradient(make_trajectory: Make) -> None:
    assert _outcome(make_trajectory, BASE) == _outcome(make_trajectory, replace(BASE))

"""Settings of a policy gradient refuse what cannot work and what would do nothing, naming both sides."""

from collections.abc import Callable

import pytest

from upturn.errors import ConfigError
from upturn.training.advantages import AdvantageSettings
from upturn.training.algorithms.grpo import GrpoSettings
from upturn.training.policy_settings import (
    DynamicSamplingSettings,
    KernelSettings,
    KlSettings,
    MismatchSettings,
    ObjectiveSettings,
)

REFUSED: dict[str, tuple[Callable[[], object], str]] = {
    "dual clip elsewhere": (
        lambda: ObjectiveSettings("cispo", dual_clip=6.0),
        "dual_clip=6.0 would do nothing with kind='cispo'; take kind='clipped' or leave it out",
    ),
    "dual clip within the clip": (
        lambda: ObjectiveSettings(dual_clip=1.2),
        "dual_clip must be more than 1 + clip_high, got 1.2",
    ),
    "clip of everything": (
        lambda: ObjectiveSettings(clip_low=1.0),
        "clip_low must be in (0, 1) with kind='clipped', got 1.0",
    ),
    "clip of sapo": (
        lambda: ObjectiveSettings("sapo", clip_high=0.3),
        "clip_high=0.3 would do nothing with kind='sapo', which has no clip; leave it out",
    ),
    "clip of vespo": (
        lambda: ObjectiveSettings("vespo", clip_low=0.3),
        "clip_low=0.3 would do nothing with kind='vespo', which has no clip; leave it out",
    ),
    "kernel elsewhere": (
        lambda: ObjectiveSettings("sapo", kernel=KernelSettings()),
        "kernel would do nothing with kind='sapo'; it belongs to 'vespo'",
    ),
    "vespo corrected twice": (
        lambda: GrpoSettings(objective=ObjectiveSettings("vespo"), mismatch=MismatchSettings("token", 2.0)),
        "objective.kind='vespo' weighs a rollout by its whole ratio to the recorded log-probs, and mismatch.weight "
        "and mask would weigh it again: leave mismatch out, or take another objective",
    ),
    "gates elsewhere": (
        lambda: ObjectiveSettings(gate_negative=1.1),
        "gate_negative=1.1 would do nothing with kind='clipped'; it belongs to 'sapo'",
    ),
    "band below zero": (
        lambda: ObjectiveSettings("cispo", clip_low=1.5),
        "clip_low: input should be less than or equal to 1, got 1.5",
    ),
    "no upper clip": (
        lambda: ObjectiveSettings(clip_high=0.0),
        "clip_high: input should be greater than 0, got 0.0",
    ),
    "sequence ratio over tokens": (
        lambda: ObjectiveSettings("gspo"),
        "kind='gspo' is a mean over each sequence; aggregation='token_mean' would weigh its one ratio by length. "
        "Set aggregation='sequence_mean'",
    ),
    "constant missing": (
        lambda: ObjectiveSettings(aggregation="constant"),
        "aggregation='constant' needs constant_tokens; set the longest a rollout may be",
    ),
    "constant unused": (
        lambda: ObjectiveSettings(constant_tokens=9),
        "constant_tokens=9 would do nothing with aggregation='token_mean'; take aggregation='constant' or leave it "
        "out",
    ),
    "stale limit": (
        lambda: ObjectiveSettings(stale_limit=0.0),
        "stale_limit: input should be greater than 0, got 0.0",
    ),
    "no KL": (lambda: KlSettings(0.0), "coefficient: input should be greater than 0, got 0.0"),
    "k1 alone": (
        lambda: KlSettings(0.1, "k1"),
        "estimator='k1' would do nothing as a loss: the mean of its gradient is 0; set unbiased=True, or "
        "take 'k2' or 'k3'",
    ),
    "k2 unbiased": (
        lambda: KlSettings(0.1, "k2", unbiased=True),
        "unbiased=True cannot make estimator='k2' unbiased; take 'k1' or 'k3'",
    ),
    "target without horizon": (
        lambda: KlSettings(0.1, target=0.1),
        "target=0.1 needs horizon; set over how many trajectories it adapts",
    ),
    "horizon without target": (
        lambda: KlSettings(0.1, horizon=10),
        "horizon=10 would do nothing without target; set both or neither",
    ),
    "weight without cap": (
        lambda: MismatchSettings("token"),
        "weight='token' needs weight_cap: a ratio without bound has no bounded variance",
    ),
    "cap without weight": (
        lambda: MismatchSettings(weight_cap=2.0),
        "weight_cap=2.0 would do nothing with weight='none'; choose 'token' or 'sequence' or leave it out",
    ),
    "cap beyond the mask": (
        lambda: MismatchSettings("token", 3.0, "token", 0.5, 2.0),
        "weight_cap=3.0 would do nothing with mask_high=2.0 on the same level; leave it out or make it smaller",
    ),
    "bounds without mask": (
        lambda: MismatchSettings(mask_low=0.5, mask_high=2.0),
        "mask_low and mask_high would do nothing with mask='none'; choose a mask or leave it out",
    ),
    "mask without bounds": (
        lambda: MismatchSettings(mask="geometric", mask_high=2.0),
        "mask='geometric' needs mask_low; set it",
    ),
    "lower bound of k3": (
        lambda: MismatchSettings(mask="k3", mask_low=0.1, mask_high=0.2),
        "mask_low=0.1 would do nothing with mask='k3', which only has an upper limit; leave it out",
    ),
    "mask without 1": (
        lambda: MismatchSettings(mask="token", mask_low=1.5, mask_high=2.0),
        "mask_low=1.5 and mask_high=2.0 must enclose 1, where nothing differs",
    ),
    "one round": (
        lambda: DynamicSamplingSettings(max_rounds=1),
        "max_rounds: input should be greater than or equal to 2, got 1",
    ),
    "no groups": (
        lambda: DynamicSamplingSettings(groups=0),
        "groups: input should be greater than or equal to 1, got 0",
    ),
    "no pass": (lambda: GrpoSettings(passes=0), "passes: input should be greater than or equal to 1, got 0"),
    "stale and recomputed": (
        lambda: GrpoSettings(objective=ObjectiveSettings(stale_limit=1.0), mismatch=MismatchSettings()),
        "objective.stale_limit=1.0 measures the gap to the sampler, which recomputed log-probs hide: leave "
        "mismatch out, or take a mismatch.mask by sequence instead",
    ),
    "nothing to refill": (
        lambda: GrpoSettings(
            advantage=AdvantageSettings(baseline="none", scale="whiten"), dynamic_sampling=DynamicSamplingSettings()
        ),
        "dynamic_sampling would do nothing with advantage.baseline='none', where every group has a signal; leave "
        "one out",
    ),
}


@pytest.mark.parametrize(("make", "problem"), REFUSED.values(), ids=REFUSED.keys())
def test_incompatible_settings_are_refused_naming_both_sides(make: Callable[[], object], problem: str) -> None:
    with pytest.raises(ConfigError) as caught:
        make()
    assert caught.value.problems == (problem,)


def test_clips_default_to_the_usual_ones_of_the_kind() -> None:
    assert ObjectiveSettings().clips == (0.2, 0.28)
    assert ObjectiveSettings("gspo", aggregation="sequence_mean").clips == (3e-4, 4e-4)
    assert ObjectiveSettings("cispo").clips == (1.0, 4.0)
    assert ObjectiveSettings("cispo", clip_low=0.2).clips == (0.2, 4.0)


def test_icepop_and_mis_need_no_cap_in_addition_to_their_mask() -> None:
    for level in ("token", "sequence"):
        assert MismatchSettings(level, None, level, 0.5, 2.0).weight_cap is None


def test_all_problems_are_listed_together() -> None:
    with pytest.raises(ConfigError) as caught:
        ObjectiveSettings("gspo", clip_low=2.0, clip_high=-1.0, dual_clip=0.5, constant_tokens=4)
    assert len(caught.value.problems) == 6


IDLE = (
    " would do nothing with minibatches=1, passes=1 and mismatch: the only step of an iteration starts from the "
    "weights that its old log-probs are recomputed with, so every ratio is 1. Set more minibatches or passes, or "
    "leave it out"
)


@pytest.mark.parametrize(
    ("objective", "chosen"),
    [
        (ObjectiveSettings(dual_clip=3.0), ["dual_clip=3.0"]),
        (ObjectiveSettings(clip_low=0.1, clip_high=0.1), ["clip_low=0.1", "clip_high=0.1"]),
        (ObjectiveSettings("gspo", aggregation="sequence_mean"), ["kind='gspo'"]),
        (ObjectiveSettings("cispo", clip_high=9.0), ["kind='cispo'", "clip_high=9.0"]),
    ],
)
def test_bounds_on_a_constant_ratio_of_1_are_refused(objective: ObjectiveSettings, chosen: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        GrpoSettings(minibatches=1, passes=1, objective=objective, mismatch=MismatchSettings())
    assert list(caught.value.problems) == [f"objective.{item}{IDLE}" for item in chosen]
    for changes in ({"minibatches": 2}, {"passes": 2}, {"mismatch": None}):
        settings = {"minibatches": 1, "passes": 1, "mismatch": MismatchSettings(), **changes}
        assert GrpoSettings(objective=objective, **settings).objective == objective  # type: ignore[arg-type]


def test_default_bounds_are_accepted() -> None:
    for objective in (ObjectiveSettings(), ObjectiveSettings(clip_low=0.2, clip_high=0.28)):
        assert GrpoSettings(minibatches=1, objective=objective, mismatch=MismatchSettings()).passes == 1

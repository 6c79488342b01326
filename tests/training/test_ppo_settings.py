"""Settings of PPO refuse what cannot work and what would do nothing."""

from collections.abc import Callable

import pytest

from upturn.config import OptimiserSettings
from upturn.errors import ConfigError
from upturn.training.algorithms.ppo import CreditSettings, CriticSettings, PpoSettings
from upturn.training.policy_settings import MismatchSettings, ObjectiveSettings

REFUSED: dict[str, tuple[Callable[[], object], str]] = {
    "gamma": (lambda: CreditSettings(gamma=1.1), "gamma: input should be less than or equal to 1, got 1.1"),
    "trace": (lambda: CreditSettings(trace=-0.1), "trace: input should be greater than or equal to 0, got -0.1"),
    "value trace": (
        lambda: CreditSettings(value_trace=2.0),
        "value_trace: input should be less than or equal to 1, got 2.0",
    ),
    "rate": (lambda: CriticSettings(learning_rate=0.0), "learning_rate: input should be greater than 0, got 0.0"),
    "no pass": (lambda: CriticSettings(passes=0), "passes: input should be greater than or equal to 1, got 0"),
    "clip": (
        lambda: CriticSettings(value_clip=0.0),
        "value_clip: input should be greater than 0, got 0.0",
    ),
    "idle clip": (
        lambda: CriticSettings(value_clip=0.2, minibatches=1, passes=1),
        "value_clip=0.2 would do nothing with minibatches=1 and passes=1",
    ),
    "critic alone for ever": (
        lambda: PpoSettings(iterations=3, critic=CriticSettings(alone_iterations=3)),
        "critic.alone_iterations=3 leaves no iteration of 3 that trains the policy; set fewer, or more iterations",
    ),
    "what holds for every policy": (
        lambda: PpoSettings(keep="best", evaluate_every=None),
        "keep='best' would do nothing with evaluate_every=None",
    ),
    "idle bounds": (
        lambda: PpoSettings(minibatches=1, objective=ObjectiveSettings("turn"), mismatch=MismatchSettings()),
        "objective.kind='turn' would do nothing with minibatches=1, passes=1 and mismatch",
    ),
}


@pytest.mark.parametrize(("make", "message"), REFUSED.values(), ids=REFUSED)
def test_invalid_settings_are_refused(make: Callable[[], object], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        make()
    assert message in str(caught.value)


def test_all_problems_are_reported_together() -> None:
    with pytest.raises(ConfigError) as caught:
        PpoSettings(iterations=1, passes=0, critic=CriticSettings(alone_iterations=1))
    assert len(caught.value.problems) == 2


def test_traces_default_to_the_usual_ones_of_the_step() -> None:
    assert CreditSettings().traces == (0.9, 0.9)
    assert CreditSettings("token").traces == (1.0, 1.0)
    assert CreditSettings(trace=0.5).traces == (0.5, 0.5)
    assert CreditSettings(trace=0.5, value_trace=1.0).traces == (0.5, 1.0)


def test_the_critic_has_the_policys_optimiser_with_its_own_rate() -> None:
    policy = OptimiserSettings(learning_rate=1e-5, packing="padded", max_grad_norm=0.5, warmup_steps=7)
    critic_settings = CriticSettings(learning_rate=1e-3).optimiser(policy)
    assert critic_settings == OptimiserSettings(
        learning_rate=1e-3, packing="padded", max_grad_norm=0.5, warmup_steps=0
    )

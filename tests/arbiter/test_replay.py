"""Policies replayed on recordings with known answers."""

from pathlib import Path

import numpy as np
import pytest

from upturn.arbiter.recording import Recording, read_recording
from upturn.arbiter.replay import PolicyReplay, Replay, ReplayOptions, learning_policies, replay

FILES = Path(__file__).parents[1] / "data" / "arbiter"


def by_name(result: Replay) -> dict[str, PolicyReplay]:
    return {policy.name: policy for policy in result.policies}


def make_recording(lines: int, rates: dict[str, tuple[float, float]], seed: int = 0) -> Recording:
    """Returns lines of two alternating families; ``rates`` has each model's success rate in both."""
    generator = np.random.default_rng(seed)
    families = tuple(("left", "right")[line % 2] for line in range(lines))
    columns = [[float(generator.random() < rate[line % 2]) for line in range(lines)] for rate in rates.values()]
    return Recording(tuple(rates), families, np.array(columns).T, None, (), ())


def test_baselines_of_the_hand_written_file() -> None:
    result = by_name(replay(read_recording(FILES / "replay.csv"), {}, ReplayOptions(resamples=200)))
    assert set(result) == {"best_single", "best_by_family", "oracle", "cheapest"}
    assert result["best_single"].reward.value == 4.75 / 8
    assert result["best_single"].shares == {"small/model": 0, "large-model": 1}
    assert result["oracle"].reward.value == 6.75 / 8
    # Ties go to the cheaper model: lines 1, 7 and 8, and the two that only the small one solves.
    assert result["oracle"].shares == {"small/model": 5 / 8, "large-model": 3 / 8}
    assert result["oracle"].cost == pytest.approx((0.1 + 1.2 + 0.2 + 1.4 + 0.1 + 1.0 + 0.1 + 0.1) / 8)
    assert result["cheapest"].reward.value == 4.25 / 8
    assert result["cheapest"].regret_best.value == 0.5 / 8
    assert result["cheapest"].regret_oracle.value == 2.5 / 8


def test_the_best_model_of_each_family_and_the_rows_by_family() -> None:
    recording = make_recording(400, {"a": (0.9, 0.2), "b": (0.1, 0.8)})
    result = replay(recording, {}, ReplayOptions(resamples=50))
    left, right = recording.rewards[::2].mean(axis=0), recording.rewards[1::2].mean(axis=0)
    assert by_name(result)["best_by_family"].reward.value == pytest.approx((left[0] + right[1]) / 2)
    assert by_name(result)["best_by_family"].shares == {"a": 0.5, "b": 0.5}
    assert list(result.families) == ["left", "right"]
    family = result.families["right"]
    assert (family.lines, family.best) == (200, "b")
    assert family.models == pytest.approx({"a": right[0], "b": right[1]})
    assert family.policies["best_single"] == pytest.approx(right[0 if result.best_single == "a" else 1])
    assert family.policies["best_by_family"] == pytest.approx(right[1])
    assert family.policies["oracle"] == pytest.approx(recording.rewards[1::2].max(axis=1).mean())


def test_rewards_and_regrets_add_up() -> None:
    recording = make_recording(200, {"a": (0.9, 0.9), "b": (0.3, 0.3)})
    result = replay(recording, learning_policies(), ReplayOptions(seeds=3, wave=4, resamples=200))
    policies = by_name(result)
    assert result.best_single == "a"
    assert result.models["b"].value == recording.rewards[:, 1].mean()
    for policy in result.policies:
        assert policy.reward.low <= policy.reward.value <= policy.reward.high
        assert sum(policy.shares.values()) == pytest.approx(1)
        assert policy.cost is None
        for baseline, regret in (("best_single", policy.regret_best), ("oracle", policy.regret_oracle)):
            assert regret.value == pytest.approx(policies[baseline].reward.value - policy.reward.value)


def test_thompson_beats_every_single_model_where_families_differ() -> None:
    recording = make_recording(800, {"a": (0.95, 0.1), "b": (0.1, 0.95)})
    result = by_name(replay(recording, learning_policies(), ReplayOptions(seeds=2, wave=8, resamples=200)))
    assert result["discounted_thompson"].reward.value > 0.85, "chance: .525 ± .018 for any policy without families"
    assert result["discounted_thompson"].regret_best.high < 0
    assert result["uniform"].reward.value == pytest.approx(0.525, abs=0.09), "P(chance) < 1e-6: 5 standard errors"
    assert result["uniform"].shares["a"] == pytest.approx(0.5, abs=0.07), "P(chance) < 1e-6: 5 standard errors"


def test_replay_is_reproducible_and_orders_differ() -> None:
    recording = make_recording(60, {"a": (0.8, 0.8), "b": (0.5, 0.5)})
    options = ReplayOptions(seeds=2, resamples=50)
    assert replay(recording, learning_policies(), options) == replay(recording, learning_policies(), options)
    orders: list[None] = []
    replay(recording, learning_policies(), options, on_order=lambda: orders.append(None))
    assert len(orders) == 8


def test_single_model_has_no_regret() -> None:
    result = replay(
        make_recording(30, {"only": (0.5, 0.5)}), learning_policies(), ReplayOptions(seeds=1, resamples=50)
    )
    for policy in result.policies:
        assert (policy.regret_best.value, policy.regret_oracle.value, policy.shares) == (0, 0, {"only": 1})


def test_intervals_cover_the_mean_of_independent_lines() -> None:
    recording = make_recording(1000, {"a": (0.7, 0.7)})
    interval = replay(recording, {}, ReplayOptions(resamples=2000)).models["a"]
    half = 1.96 * (0.21 / 1000) ** 0.5  # the normal interval of a Bernoulli mean
    assert interval.high - interval.low == pytest.approx(2 * half, rel=0.12)


@pytest.mark.parametrize("name", ["seeds", "wave", "resamples"])
def test_unusable_options_are_rejected(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} must be at least 1, got 0"):
        ReplayOptions(**{name: 0})

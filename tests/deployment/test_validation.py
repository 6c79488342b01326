"""Validation on held-out pairs: three verdicts, the guardrail against forgetting, safety, missing evaluations."""

from collections.abc import Callable

import numpy as np
import pytest

from upturn.config import ValidationSettings
from upturn.deployment.validation import Pair, Validation, pairs_of, validate
from upturn.errors import ConfigError
from upturn.records import Evaluation, Task, from_json, to_json

SETTINGS = ValidationSettings(resamples=2_000)


def make_family(name: str, n: int, incumbent: int, candidate: int, level: int = 1) -> list[Pair]:
    """Returns n tasks, of which the incumbent and the candidate solve the first so many."""
    return [
        Pair(f"{name}-{index}", name, level, float(index < incumbent), float(index < candidate))
        for index in range(n)
    ]


def test_significant_improvement_passes_with_its_figures() -> None:
    validation = validate(
        [*make_family("mail", 40, 10, 30), *make_family("sheet", 40, 20, 36, level=2)], SETTINGS, seed=1
    )
    assert validation.verdict == "pass"
    assert validation.gain == pytest.approx(36 / 80)
    assert validation.low is not None
    assert validation.high is not None
    assert 0.3 < validation.low < 36 / 80 < validation.high < 0.6
    assert (validation.n, validation.missing, validation.strong) == (80, 0, None)
    assert [(family.name, family.n, family.difference) for family in validation.families] == [
        ("mail", 40, 0.5),
        ("sheet", 40, 0.4),
    ]
    assert [level.name for level in validation.levels] == ["L1", "L2"]
    assert "n=80" in validation.summary


def test_record_round_trips_and_is_reproducible() -> None:
    pairs = make_family("mail", 40, 10, 30)
    validation = validate(pairs, SETTINGS, seed=1)
    assert from_json(Validation, to_json(validation)) == validation
    assert validate(pairs[::-1], SETTINGS, seed=1) == validation


def test_no_data_is_hold() -> None:
    assert validate([], SETTINGS, seed=0).verdict == "hold"
    one_sided = [Pair(str(index), "mail", 1, 1.0, None) for index in range(50)]
    validation = validate(one_sided, SETTINGS, seed=0)
    assert (validation.verdict, validation.gain, validation.missing) == ("hold", None, 50)
    assert "no data" in validation.summary


def test_few_tasks_are_hold_for_any_gain() -> None:
    validation = validate(make_family("mail", 12, 0, 12), SETTINGS, seed=0)
    assert (validation.verdict, validation.gain) == ("hold", 1.0)
    assert "12 tasks are fewer than the 30" in validation.summary


def test_no_significant_change_is_hold() -> None:
    validation = validate(make_family("mail", 60, 30, 31), SETTINGS, seed=0)
    assert validation.verdict == "hold"
    assert "no significant improvement" in validation.summary


def test_minimum_effect_applies_to_the_lower_limit() -> None:
    pairs = make_family("mail", 100, 30, 50)
    demanding = ValidationSettings(resamples=2_000, minimum_effect=0.15)
    assert validate(pairs, SETTINGS, seed=0).verdict == "pass"
    assert validate(pairs, demanding, seed=0).verdict == "hold"


def test_significantly_worse_fails() -> None:
    assert validate(make_family("mail", 100, 60, 40), SETTINGS, seed=0).verdict == "fail"


def test_missing_evaluations_count_as_failures_and_are_reported() -> None:
    pairs = make_family("mail", 100, 30, 60)
    pairs[59] = pairs[59]._replace(candidate=None)
    validation = validate(pairs, SETTINGS, seed=0)
    assert (validation.verdict, validation.missing) == ("pass", 1)
    assert validation.gain == pytest.approx(0.29)
    assert validation.families[0].missing == 1


def test_too_many_missing_evaluations_are_hold() -> None:
    pairs = [
        pair._replace(incumbent=None) if index < 20 else pair
        for index, pair in enumerate(make_family("m", 100, 30, 60))
    ]
    validation = validate(pairs, SETTINGS, seed=0)
    assert validation.verdict == "hold"
    assert "missing for 20 of 100" in validation.summary


def test_gain_from_missing_evaluations_of_the_incumbent_does_not_count() -> None:
    """Nine gains of 100, all on tasks without an evaluation of the incumbent."""
    pairs = [
        pair._replace(incumbent=None, candidate=1.0) if index >= 91 else pair
        for index, pair in enumerate(make_family("m", 100, 50, 50))
    ]
    validation = validate(pairs, SETTINGS, seed=0)
    assert validation.low is not None
    assert validation.low > 0
    assert validation.verdict == "hold"
    assert "rests on missing evaluations" in validation.summary


def test_forgotten_family_fails_despite_a_large_gain() -> None:
    pairs = [*make_family("new", 100, 0, 90), *make_family("old", 40, 24, 12)]
    validation = validate(pairs, SETTINGS, seed=0)
    assert validation.verdict == "fail"
    assert validation.gain is not None
    assert validation.gain > 0.5
    assert validation.reasons[0].startswith("family old is significantly worse")
    assert "n=40" in validation.reasons[0]
    # Twelve tasks lost, none won: 2^-12, doubled by Holm over two families.
    assert next(family for family in validation.families if family.name == "old").worse_p == pytest.approx(2**-11)


def test_holm_corrects_for_many_families() -> None:
    """Five lost, none won: p = 1/32 alone, but not among ten families."""
    lossy = make_family("lossy", 40, 20, 15)
    assert any("lossy" in reason for reason in validate(lossy, SETTINGS, seed=0).reasons)
    others = [pair for index in range(9) for pair in make_family(f"f{index}", 10, 0, 9)]
    assert validate([*lossy, *others], SETTINGS, seed=0).verdict == "pass"


def test_strong_families_are_pooled() -> None:
    """Three families at 95 % lose two tasks each: no family is significantly worse, together they may have lost
    5 points."""
    strong = [pair for name in "abc" for pair in make_family(name, 40, 38, 36)]
    validation = validate([*strong, *make_family("weak", 100, 10, 60)], SETTINGS, seed=0)
    assert validation.verdict == "fail"
    assert validation.strong is not None
    assert validation.strong.n == 120
    assert validation.strong.difference == pytest.approx(-0.05)
    assert "families at 80% or more" in validation.reasons[0]
    assert "n=120" in validation.reasons[0]
    lenient = ValidationSettings(resamples=2_000, forgetting_margin=0.12)
    assert validate([*strong, *make_family("weak", 100, 10, 60)], lenient, seed=0).verdict == "pass"


def independent_pairs(rng: np.random.Generator, families: int, n: int, rate: float) -> list[Pair]:
    """Returns pairs in which both versions succeed independently at ``rate``."""
    return [
        Pair(f"{family}-{index}", f"f{family}", 1, float(rng.random() < rate), float(rng.random() < rate))
        for family in range(families)
        for index in range(n)
    ]


def is_blocked(validation: Validation) -> bool:
    return validation.verdict == "fail"


def test_unchanged_candidate_passes_the_guardrail_most_of_the_time() -> None:
    """Nine families at .95, 40 tasks each; with a margin for each family alone, far fewer than 24 % would pass."""
    rng, settings = np.random.default_rng(3), ValidationSettings(resamples=500)
    blocked = sum(
        is_blocked(validate(independent_pairs(rng, 9, 40, 0.95), settings, seed=seed)) for seed in range(60)
    )
    # About 4 % are blocked; more than 9 of 60 has a chance of 4e-4.
    assert blocked <= 9


def test_family_that_loses_half_is_almost_always_blocked() -> None:
    rng, settings = np.random.default_rng(4), ValidationSettings(resamples=500)

    def forgetting(seed: int) -> Validation:
        unchanged = independent_pairs(rng, 8, 40, 0.9)
        lost = [
            Pair(f"lost-{index}", "lost", 1, float(rng.random() < 0.9), float(rng.random() < 0.45))
            for index in range(40)
        ]
        return validate([*unchanged, *lost], settings, seed=seed)

    # A loss of 45 points on 40 pairs escapes Holm over nine families in well under 5 %.
    assert sum(is_blocked(forgetting(seed)) for seed in range(30)) >= 27


def with_costs(pairs: list[Pair], costs: Callable[[int], tuple[float, float]]) -> list[Pair]:
    return [
        pair._replace(incumbent_cost=costs(index)[0], candidate_cost=costs(index)[1])
        for index, pair in enumerate(pairs)
    ]


def test_significantly_higher_safety_costs_fail_for_any_gain() -> None:
    pairs = with_costs(make_family("mail", 100, 0, 90), lambda index: (0.0, float(index < 10)))
    validation = validate(pairs, SETTINGS, seed=0)
    assert validation.verdict == "fail"
    assert "safety costs are significantly higher" in validation.reasons[0]
    assert validation.cost_difference == pytest.approx(0.1)


def test_safety_costs_with_a_high_upper_limit_fail() -> None:
    pairs = with_costs(
        make_family("mail", 40, 0, 36), lambda index: (float(index in (0, 1)), float(index in (2, 3)))
    )
    assert "may be higher" in validate(pairs, SETTINGS, seed=0).reasons[0]


def test_equal_and_lower_safety_costs_pass() -> None:
    for costs in ((1.0, 1.0), (1.0, 0.0)):
        pairs = with_costs(make_family("mail", 100, 0, 90), lambda _, both=costs: both)  # type: ignore[misc]
        assert validate(pairs, SETTINGS, seed=0).verdict == "pass"


def test_task_in_two_pairs_is_rejected() -> None:
    pair = Pair("t", "mail", 1, 1.0, 1.0)
    with pytest.raises(ValueError, match="several pairs"):
        validate([pair, pair], SETTINGS, seed=0)


def test_pairs_from_evaluations() -> None:
    def evaluation(verdict: str, **costs: float) -> Evaluation:
        return Evaluation("e", "t", "j", "office/1", verdict, (), {}, costs, None)  # type: ignore[arg-type]

    tasks = [Task(f"t{index}", "do", "mail", "office", level=2) for index in range(3)]
    incumbent = {"t0": [evaluation("success"), evaluation("missing")], "t1": [evaluation("missing")]}
    candidate = {"t0": [evaluation("failure", leak=1.0, slow=4.0)], "t1": [evaluation("success")]}
    assert pairs_of(tasks, incumbent, candidate, safety_costs=("leak",)) == (
        Pair("t0", "mail", 2, 0.5, 0.0, 0.0, 1.0),
        Pair("t1", "mail", 2, None, 1.0),
        Pair("t2", "mail", 2, None, None),
    )
    assert pairs_of(tasks[:1], incumbent, candidate)[0].candidate_cost == 5.0


def test_all_bad_settings_are_reported_together() -> None:
    with pytest.raises(ConfigError) as caught:
        ValidationSettings(alpha=0.6, min_tasks=0, strong_rate=80.0)
    assert len(caught.value.problems) == 3


def in_episodes(pairs: list[Pair], size: int) -> list[Pair]:
    return [pair._replace(episode=str(index // size)) for index, pair in enumerate(pairs)]


def test_tasks_without_an_episode_are_units_and_so_are_episodes_of_one() -> None:
    pairs = [*make_family("mail", 40, 10, 30), *make_family("sheet", 40, 20, 15)]
    assert validate(in_episodes(pairs, 1), SETTINGS, seed=1) == validate(pairs, SETTINGS, seed=1)
    assert validate(pairs, SETTINGS, seed=1).families[0].clusters is None


def test_episodes_count_once() -> None:
    """Twenty gains in five episodes of four are five gains: p = 2^-5 by sign flips, above 2.5 %."""
    pairs = make_family("mail", 160, 0, 20)
    assert validate(pairs, SETTINGS, seed=0).verdict == "pass"
    validation = validate(in_episodes(pairs, 4), SETTINGS, seed=0)
    assert validation.verdict == "hold"
    assert "p=0.031 by sign flips of episodes: gain +12.5 points" in validation.summary
    assert "n=160 in 40 episodes" in validation.summary
    assert validation.families[0].clusters == 40
    six = validate(in_episodes(make_family("mail", 160, 0, 24), 4), SETTINGS, seed=0)
    assert six.verdict == "pass"  # 2^-6


def test_few_episodes_are_hold_for_any_gain() -> None:
    validation = validate(in_episodes(make_family("mail", 100, 0, 100), 5), SETTINGS, seed=0)
    assert "20 episodes are fewer than the 30" in validation.summary


def test_a_family_loses_by_episode() -> None:
    """Twelve losses are significant, in three episodes of four they are not: p = 1/8."""
    others = make_family("other", 120, 60, 60)
    by_task = validate([*make_family("old", 48, 24, 12), *others], SETTINGS, seed=0)
    assert by_task.verdict == "fail"
    by_episode = validate(in_episodes([*make_family("old", 48, 24, 12), *others], 4), SETTINGS, seed=0)
    assert next(family.worse_p for family in by_episode.families if family.name == "old") == pytest.approx(2 / 8)
    assert not any("significantly worse" in reason for reason in by_episode.reasons)


def unchanged_in_episodes(rng: np.random.Generator, episodes: int, size: int, correlation: float) -> list[Pair]:
    """Both versions draw a rate for every episode, from a beta distribution with this intra-class correlation."""
    weight = (1 - correlation) / correlation
    rates = rng.beta(0.7 * weight, 0.3 * weight, size=(episodes, 2))
    pairs = []
    for episode in range(episodes):
        for task in range(size):
            old, new = (rng.random(2) < rates[episode]).astype(float).tolist()
            pairs.append(Pair(f"{episode}-{task}", "f", 1, old, new, episode=str(episode)))
    return pairs


def test_unchanged_version_with_episodes_of_five_passes_in_2_percent() -> None:
    rng, settings, runs = np.random.default_rng(7), ValidationSettings(resamples=200), 400
    passed = sum(
        validate(unchanged_in_episodes(rng, 30, 5, 0.6), settings, seed=seed).verdict == "pass"
        for seed in range(runs)
    )
    # The sign-flip test passes 2.5 % or less, whatever the clusters; more than 20 of 400 then has a chance of
    # 2e-3. By task 13 % would pass, and 20 of 400 or fewer have a chance of 1e-7.
    assert passed <= 20


def test_no_loss_blocks_no_candidate_however_few_strong_tasks() -> None:
    """Equal on 31 strong tasks: the exact lower limit is −9 points, but nothing was lost."""
    pairs = [*make_family("strong", 31, 31, 31), *make_family("weak", 60, 0, 30)]
    validation = validate(pairs, SETTINGS, seed=0)
    assert validation.verdict == "pass"
    assert validation.strong is not None
    assert validation.strong.low == pytest.approx(-(1 - 0.05 ** (1 / 31)))
    assert validation.strong.high == pytest.approx(1 - 0.05 ** (1 / 31))


def test_pairs_have_the_tasks_episode() -> None:
    tasks = [Task("a", "do", "mail", "office", episode="monday"), Task("b", "do", "mail", "office")]
    assert [pair.episode for pair in pairs_of(tasks, {}, {})] == ["monday", None]

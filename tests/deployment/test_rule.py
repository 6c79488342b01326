"""The canary's rule on arrays: hand-computed steps, the order of checks, and settings."""

import math
from dataclasses import replace

import numpy as np
import pytest

from upturn.config import CanarySettings
from upturn.deployment.rule import HOLD, PROMOTE, ROLLBACK, CanaryState, Counts, Reason, Step, advance
from upturn.deployment.sequential import mismatch_log_e, two_arm_log_factor
from upturn.errors import ConfigError


def make_block(
    candidate: tuple[int, int], control: tuple[int, int], missing: int = 0, harms: tuple[int, int] = (0, 0)
) -> Counts:
    """Returns a block of one canary from (tasks, successes) of each arm; ``harms`` are its violations."""
    return Counts(
        *(
            np.array([float(value)])
            for value in (candidate[0], candidate[1], harms[0], control[0], control[1], harms[1], missing)
        )
    )


def run_blocks(blocks: list[Counts], settings: CanarySettings) -> list[Step]:
    """Returns the steps of a new canary through all blocks."""
    state, steps = CanaryState.start(1), []
    for block in blocks:
        steps.append(advance(state, block, settings))
        state = steps[-1].state
    return steps


def outcome(step: Step) -> tuple[int, Reason]:
    return int(step.verdict[0]), Reason(int(step.reason[0]))


HALF = CanarySettings(stages=(0.5, 1.0))


def test_evidence_by_hand() -> None:
    """First block: equal predictions, no evidence. Second: predictions 3.18/4.36 and 1.18/4.36, E(better) only."""
    first, second = run_blocks([make_block((4, 3), (4, 1)), make_block((2, 2), (2, 0))], HALF)
    assert (first.state.log_e_better[0], first.state.log_e_worse[0]) == (0.0, 0.0)
    better, worse = 3.18 / 4.36, 1.18 / 4.36
    assert second.state.log_e_better[0] == pytest.approx(
        2 * math.log(better / 0.5) + 2 * math.log((1 - worse) / 0.5)
    )
    assert second.state.log_e_worse[0] == 0.0


def test_arms_are_mirror_images() -> None:
    plain = run_blocks([make_block((4, 3), (4, 1)), make_block((5, 2), (3, 2)), make_block((2, 2), (6, 1))], HALF)[
        -1
    ].state
    mirrored = run_blocks(
        [make_block((4, 1), (4, 3)), make_block((3, 2), (5, 2)), make_block((6, 1), (2, 2))], HALF
    )[-1].state
    assert plain.log_e_better[0] == pytest.approx(mirrored.log_e_worse[0])
    assert plain.log_e_worse[0] == pytest.approx(mirrored.log_e_better[0])
    assert plain.log_e_mismatch[0] == pytest.approx(mirrored.log_e_mismatch[0])


def test_canaries_in_one_array_are_independent() -> None:
    rng = np.random.default_rng(0)
    blocks = [
        Counts(*(rng.integers(0, 3, 4).astype(float) + (row in (0, 3)) * 3.0 for row in range(7))) for _ in range(6)
    ]
    state = CanaryState.start(4)
    for block in blocks:
        state = advance(state, block, HALF).state
    for run in range(4):
        alone = [Counts(*(getattr(block, name)[run : run + 1] for name in Counts.__slots__)) for block in blocks]
        assert run_blocks(alone, HALF)[-1].state.log_e_better[0] == state.log_e_better[run]


def test_clear_improvement_promotes_and_clear_drop_rolls_back() -> None:
    assert outcome(run_blocks([make_block((20, 20), (20, 2))] * 3, HALF)[1]) == (PROMOTE, Reason.BETTER)
    assert outcome(run_blocks([make_block((20, 2), (20, 20))] * 3, HALF)[1]) == (ROLLBACK, Reason.WORSE)


def test_improvement_on_too_few_tasks_holds() -> None:
    steps = run_blocks([make_block((9, 9), (9, 0))] * 4, HALF)
    assert [outcome(step) for step in steps] == [
        (HOLD, Reason.OPEN),
        (HOLD, Reason.TOO_FEW),
        (HOLD, Reason.TOO_FEW),
        (PROMOTE, Reason.BETTER),
    ]


def test_stages_advance_without_alarm_and_keep_the_evidence() -> None:
    settings = CanarySettings(stages=(0.1, 0.33, 0.5, 1.0), min_candidate_tasks=10)
    steps = run_blocks(
        [make_block((5, 3), (45, 27)), make_block((5, 3), (45, 27)), make_block((10, 6), (20, 12))], settings
    )
    assert [int(step.state.stage[0]) for step in steps] == [0, 1, 2]
    assert outcome(steps[1]) == (HOLD, Reason.ADVANCED)
    expected = float(mismatch_log_e(10, 90, 0.1) + mismatch_log_e(10, 20, 0.33))
    assert steps[2].state.log_e_mismatch[0] == pytest.approx(expected), "each stage is tested against its own share"
    last = run_blocks([make_block((5, 3), (45, 27))] * 2 + [make_block((10, 6), (20, 12))] * 3, settings)[-1]
    assert int(last.state.stage[0]) == 2, "only a verdict ends the last comparison"


def test_rule_rejects_the_last_stage() -> None:
    state = CanaryState.start(1)
    beyond = replace(state, stage=state.stage + 1)
    with pytest.raises(ValueError, match="compares two arms"):
        advance(beyond, make_block((1, 1), (1, 1)), HALF)


def test_no_data_is_hold_then_rollback() -> None:
    steps = run_blocks([make_block((0, 0), (0, 0))] * 5, HALF)
    assert [outcome(step) for step in steps[:4]] == [(HOLD, Reason.NO_DATA)] * 4
    assert outcome(steps[4]) == (ROLLBACK, Reason.PATIENCE)


def test_missing_evaluations_are_hold_then_rollback_even_when_better() -> None:
    good = make_block((20, 20), (20, 2))
    incomplete = make_block((20, 20), (20, 2), missing=5)
    steps = run_blocks([good, *[incomplete] * 5], HALF)
    assert [outcome(step) for step in steps[1:5]] == [(HOLD, Reason.MISSING)] * 4
    assert outcome(steps[5]) == (ROLLBACK, Reason.PATIENCE)


def test_a_usable_block_resets_the_unusable_streak() -> None:
    nothing, even = make_block((0, 0), (0, 0)), make_block((5, 3), (5, 3))
    steps = run_blocks([*[nothing] * 4, even, *[nothing] * 4], HALF)
    assert all(int(step.verdict[0]) == HOLD for step in steps)


def test_wrong_split_is_hold_then_rollback() -> None:
    settings = CanarySettings(stages=(0.1, 1.0))
    steps = run_blocks([make_block((20, 14), (80, 56))] * 12, settings)
    outcomes = [outcome(step) for step in steps]
    first = outcomes.index((HOLD, Reason.MISMATCH))
    assert steps[first].state.log_e_mismatch[0] >= math.log(100)
    assert outcomes[first : first + 5] == [(HOLD, Reason.MISMATCH)] * 4 + [(ROLLBACK, Reason.PATIENCE)]


def test_a_candidate_without_traffic_is_a_wrong_split() -> None:
    settings = CanarySettings(stages=(0.1, 1.0))
    outcomes = [outcome(step) for step in run_blocks([make_block((0, 0), (20, 14))] * 20, settings)]
    assert (HOLD, Reason.MISMATCH) in outcomes
    assert PROMOTE not in [verdict for verdict, _ in outcomes]


def test_inconclusive_is_rolled_back_at_max_candidate_tasks() -> None:
    settings = CanarySettings(stages=(0.5, 1.0), max_candidate_tasks=100)
    outcomes = [outcome(step) for step in run_blocks([make_block((10, 7), (10, 7))] * 10, settings)]
    assert outcomes == [(HOLD, Reason.OPEN)] * 9 + [(ROLLBACK, Reason.EXHAUSTED)]


def test_minimum_effect_applies_to_the_lower_limit() -> None:
    blocks = [make_block((25, 23), (25, 15))] * 60
    plain = run_blocks(blocks, HALF)
    demanding = run_blocks(blocks, CanarySettings(stages=(0.5, 1.0), minimum_effect=0.2))
    first = [outcome(step) for step in plain].index((PROMOTE, Reason.BETTER))
    assert outcome(demanding[first]) == (HOLD, Reason.SMALL_EFFECT)
    later = [outcome(step) for step in demanding].index((PROMOTE, Reason.BETTER))
    assert later > first
    never = run_blocks(blocks, CanarySettings(stages=(0.5, 1.0), minimum_effect=0.33))
    assert (PROMOTE, Reason.BETTER) not in [outcome(step) for step in never], "the true difference is .32"


def test_shown_harm_rolls_back_a_better_candidate() -> None:
    harmful = make_block((20, 20), (20, 2), harms=(12, 0))
    steps = run_blocks([harmful] * 3, HALF)
    assert outcome(steps[1]) == (ROLLBACK, Reason.UNSAFE)
    # From the first block: .18 and 12.18 of 20.36 tasks with harm; successes do not matter.
    predicted = (12.18 / 20.36, 0.18 / 20.36)
    assert steps[1].state.log_e_unsafe[0] == pytest.approx(float(two_arm_log_factor((20, 20), (12, 0), predicted)))


def test_violations_above_the_margin_delay_promotion() -> None:
    slightly = make_block((20, 20), (20, 2), harms=(1, 0))
    assert outcome(run_blocks([slightly] * 2, HALF)[1]) == (HOLD, Reason.SAFETY_OPEN)
    tolerant = CanarySettings(stages=(0.5, 1.0), safety_margin=0.06)
    assert outcome(run_blocks([slightly] * 2, tolerant)[1]) == (PROMOTE, Reason.BETTER)


def test_threshold_splits_alpha_between_directions() -> None:
    assert CanarySettings().threshold == 40.0
    assert CanarySettings(alpha=0.1).threshold == 20.0


def test_all_bad_settings_are_reported_together() -> None:
    with pytest.raises(ConfigError) as caught:
        CanarySettings(
            stages=(0.5, 0.1), alpha=0.0, min_candidate_tasks=50, max_candidate_tasks=40, patience_blocks=0
        )
    assert len(caught.value.problems) == 4
    assert "(0.5, 0.1)" in str(caught.value)


@pytest.mark.parametrize("stages", [(1.0,), (0.5, 0.9), (0.0, 1.0), (0.3, 0.3, 1.0), ()])
def test_stages_must_rise_to_all_of_the_traffic(stages: tuple[float, ...]) -> None:
    with pytest.raises(ConfigError, match="stages must rise"):
        CanarySettings(stages=stages)


def test_stages_may_be_any_share() -> None:
    assert CanarySettings(stages=(0.07, 0.31, 1.0)).last_comparison == 1

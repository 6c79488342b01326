"""The canary's rule on arrays: hand-computed evidence, the order of checks, independence of blocks, and
settings."""

import math
from dataclasses import fields, replace

import numpy as np
import pytest

from tests.deployment.episodes_for_test import Traffic
from upturn.config import CanarySettings
from upturn.deployment.canary import _arrays
from upturn.deployment.episode import Episode
from upturn.deployment.rule import (
    CANDIDATE,
    HOLD,
    PROMOTE,
    ROLLBACK,
    CanaryState,
    Count,
    Episodes,
    Reason,
    Step,
    decide,
    observe,
)
from upturn.deployment.sequential import EFFECTS, MAX_LOSS, mismatch_log_e
from upturn.errors import ConfigError

EVEN = CanarySettings(stages=(0.5, 1.0))


def _run(
    blocks: list[list[Episode]], settings: CanarySettings, *, has_costs: bool = False, attempt: int = 1
) -> list[Step]:
    """The steps through all blocks, from the start."""
    state, steps = CanaryState.start(1, len(settings.stages)), list[Step]()
    for block in blocks:
        for episode in block:
            state = observe(state, _arrays(episode), settings)
        steps.append(
            decide(
                state,
                settings,
                has_episodes=np.array([bool(block)]),
                has_costs=np.array([has_costs]),
                attempt=attempt,
            )
        )
        state = steps[-1].state
    return steps


def _verdict(step: Step) -> tuple[int, Reason]:
    return int(step.verdict[0]), Reason(int(step.reason[0]))


def _blocks(*results: tuple[str, str], share: float = 0.5) -> list[list[Episode]]:
    traffic = Traffic(share)
    return [traffic.block(*pair) for pair in results]


def test_evidence_of_the_first_two_episodes_by_hand() -> None:
    """A candidate's success, then a control's failure, each assigned with probability ½.

    The prior says mean ½ and variance ¼ in both arms, so the first bet is 4δ, at most .95/¼, and wins ¼. Before the
    second the candidate's mean is 1.5/2 = ¾, the control's ½: centre .625; mean squares the same: variance .625 −
    .625². The control's failure scores −½·(0 − .625) = .3125; the least score is −½·.625."""
    traffic = Traffic()
    first, second = traffic.arm("candidate", "+")[0], traffic.arm("control", "-")[0]
    state = observe(CanaryState.start(1, 2), _arrays(first), EVEN)
    bets = [min(effect / 0.25, MAX_LOSS / 0.25) for effect in EFFECTS]
    capital = np.array([1 + bet * 0.25 for bet in bets])
    assert math.exp(state.log_e("better")[0]) == pytest.approx(capital.mean())
    state = observe(state, _arrays(second), EVEN)
    variance = 0.625 - 0.625**2
    capital *= [1 + min(effect / variance, MAX_LOSS / 0.3125) * 0.3125 for effect in EFFECTS]
    assert math.exp(state.log_e("better")[0]) == pytest.approx(capital.mean())


def test_arms_are_mirror_images() -> None:
    plain = _run(_blocks(("+++-", "+---"), ("++---", "++-"), ("++", "+-----")), EVEN)[-1].state
    mirrored = _run(
        [
            [replace(episode, arm="control" if episode.arm == "candidate" else "candidate") for episode in block]
            for block in _blocks(("+++-", "+---"), ("++---", "++-"), ("++", "+-----"))
        ],
        EVEN,
    )[-1].state
    assert plain.log_e("better")[0] == pytest.approx(mirrored.log_e("worse")[0])
    assert plain.log_e("worse")[0] == pytest.approx(mirrored.log_e("better")[0])
    assert plain.log_e_mismatch(EVEN)[0] == pytest.approx(mirrored.log_e_mismatch(EVEN)[0])


def test_arrays_of_canaries_are_independent_of_each_other() -> None:
    rng = np.random.default_rng(0)
    wide = [
        Episodes(
            rng.random(4) < 0.5,
            np.full(4, 0.5),
            np.full(4, 3.0),
            *(rng.integers(0, 2, 4).astype(float) for _ in range(6)),
        )
        for _ in range(20)
    ]
    state = CanaryState.start(4, 2)
    for episodes in wide:
        state = observe(state, episodes, EVEN)
    for run in range(4):
        alone = CanaryState.start(1, 2)
        for episodes in wide:
            one = Episodes(*(getattr(episodes, field.name)[run : run + 1] for field in fields(Episodes)))
            alone = observe(alone, one, EVEN)
        taken = state.take(np.arange(4) == run)
        for field in fields(CanaryState):
            np.testing.assert_array_equal(getattr(taken, field.name), getattr(alone, field.name))


def test_evidence_does_not_depend_on_how_traffic_is_cut() -> None:
    """Blocks of 1, 2, 7, 20 and 50 episodes of the same traffic end with the same evidence, to the last bit."""
    rng, traffic = np.random.default_rng(3), Traffic(0.3)
    settings = CanarySettings(stages=(0.3, 1.0), alpha=1e-9)
    served = [
        traffic.arm("candidate" if rng.random() < 0.3 else "control", "+" if rng.random() < 0.6 else "-")[0]
        for _ in range(350)
    ]
    ends = []
    for size in (1, 2, 7, 20, 50):
        blocks = [served[start : start + size] for start in range(0, len(served), size)]
        ends.append(_run(blocks, settings)[-1].state)
    for end in ends[1:]:
        np.testing.assert_array_equal(end.log_capital, ends[0].log_capital)


def test_blocks_of_one_task_see_a_collapse() -> None:
    """0 of n against n of n in blocks of one task, in turn."""
    traffic = Traffic()
    blocks = [traffic.arm("candidate", "-") if index % 2 else traffic.arm("control", "+") for index in range(60)]
    verdicts = [_verdict(step) for step in _run(blocks, EVEN)]
    first = verdicts.index((ROLLBACK, Reason.WORSE))
    assert first < 30, "30 tasks hold 15 of the candidate's"


def test_clear_improvement_promotes_and_clear_fall_rolls_back() -> None:
    assert _verdict(_run(_blocks(*[("+" * 20, "++" + "-" * 18)] * 2), EVEN)[1]) == (PROMOTE, Reason.BETTER)
    assert _verdict(_run(_blocks(("++" + "-" * 18, "+" * 20)), EVEN)[0]) == (ROLLBACK, Reason.WORSE)


def test_improvement_on_too_few_tasks_waits() -> None:
    steps = _run(_blocks(*[("+" * 10, "-" * 10)] * 3), EVEN)
    assert [_verdict(step) for step in steps] == [
        (HOLD, Reason.OPEN),
        (HOLD, Reason.TOO_FEW),
        (PROMOTE, Reason.BETTER),
    ]


def test_stages_rise_on_tasks_without_alarm_and_keep_the_evidence() -> None:
    settings = CanarySettings(stages=(0.1, 0.33, 0.5, 1.0), min_candidate_tasks=10)
    blocks = [
        *_blocks(*[("+++--", "+++--" * 9)] * 2, share=0.1),
        Traffic(0.33).block("++++++----", "++++++----" * 2),
    ]
    steps = _run(blocks, settings)
    assert [int(step.state.stage[0]) for step in steps] == [0, 1, 2]
    assert _verdict(steps[1]) == (HOLD, Reason.ADVANCED)
    expected = float(mismatch_log_e(10, 90, 0.1) + mismatch_log_e(10, 20, 0.33))
    measured = steps[2].state.log_e_mismatch(settings)[0]
    assert measured == pytest.approx(expected), "each stage is tested against its own share"
    longer = _run([*blocks, *_blocks(*[("+++--", "+++--")] * 6)], settings)[-1]
    assert int(longer.state.stage[0]) == 2, "the last comparison is left by a verdict only"


def test_the_rule_refuses_the_last_stage() -> None:
    state = CanaryState.start(1, 2)
    yes = np.array([True])
    with pytest.raises(ValueError, match="compares two arms"):
        decide(replace(state, stage=state.stage + 1), EVEN, has_episodes=yes, has_costs=yes)


def test_a_usable_block_resets_the_count() -> None:
    even = _blocks(("+++--", "+++--"))
    steps = _run([*[[]] * 4, *even, *[[]] * 4], EVEN)
    assert all(int(step.verdict[0]) == HOLD for step in steps)
    assert _verdict(_run([[]] * 5, EVEN)[4]) == (ROLLBACK, Reason.UNUSABLE)


def test_wrong_split_is_hold_then_rollback() -> None:
    settings = CanarySettings(stages=(0.1, 1.0))
    steps = _run(_blocks(*[("+++++++---" * 2, "+++++++---" * 8)] * 12, share=0.1), settings)
    verdicts = [_verdict(step) for step in steps]
    first = verdicts.index((HOLD, Reason.MISMATCH))
    assert steps[first].state.log_e_mismatch(settings)[0] >= math.log(100)
    assert verdicts[first : first + 5] == [(HOLD, Reason.MISMATCH)] * 4 + [(ROLLBACK, Reason.UNUSABLE)]


def test_the_split_is_tested_on_episodes_not_on_their_tasks() -> None:
    """1,000 tasks in 50 episodes: 7 of 50 at a share of .1 is no mismatch, 140 of 1,000 independent tasks are
    one."""
    settings = CanarySettings(stages=(0.1, 1.0))

    def log_e(tasks: int, repeats: int) -> float:
        traffic, state = Traffic(0.1), CanaryState.start(1, 2)
        for _ in range(repeats):
            block = traffic.block("+" * 7, "+" * 43)
            for episode in block:
                state = observe(state, _arrays(replace(episode, tasks=tasks, successes=tasks)), settings)
        return float(state.log_e_mismatch(settings)[0])

    assert log_e(tasks=20, repeats=1) < 0
    assert log_e(tasks=1, repeats=20) > math.log(20)


def test_a_candidate_without_traffic_is_a_wrong_split() -> None:
    settings = CanarySettings(stages=(0.1, 1.0))
    verdicts = [_verdict(step) for step in _run(_blocks(*[("", "+++++++---" * 2)] * 20, share=0.1), settings)]
    assert (HOLD, Reason.MISMATCH) in verdicts
    assert PROMOTE not in [verdict for verdict, _ in verdicts]


def test_inconclusive_is_rolled_back_at_the_allowance() -> None:
    settings = CanarySettings(stages=(0.5, 1.0), max_candidate_episodes=100)
    verdicts = [_verdict(step) for step in _run(_blocks(*[("+++++++---", "+++++++---")] * 10), settings)]
    assert verdicts == [(HOLD, Reason.OPEN)] * 9 + [(ROLLBACK, Reason.EXHAUSTED)]


def test_an_episode_of_several_tasks_is_one_observation() -> None:
    """Five tasks with 4 successes weigh as one outcome of .8, in sums, squares and evidence."""
    traffic = Traffic()
    episode = replace(traffic.arm("candidate", "+")[0], tasks=5, successes=4)
    state = observe(CanaryState.start(1, 2), _arrays(episode), EVEN)
    assert state.count(CANDIDATE, Count.EPISODES)[0] == 1
    assert state.count(CANDIDATE, Count.TASKS)[0] == 5
    assert state.sums[CANDIDATE, 0, 0] == pytest.approx(0.8)
    assert state.squares[CANDIDATE, 0, 0] == pytest.approx(0.64)
    gain = 0.5 * (0.8 - 0.5)
    expected = np.mean([1 + min(effect / 0.25, MAX_LOSS / 0.25) * gain for effect in EFFECTS])
    assert math.exp(state.log_e("better")[0]) == pytest.approx(expected)


def test_minimum_effect_must_be_exceeded() -> None:
    """The true difference is .32: shown to exceed 0 first, .2 later, .33 never."""
    blocks = _blocks(*[("+" * 23 + "-" * 2, "+" * 15 + "-" * 10)] * 60)

    def first(minimum: float | None) -> int:
        steps = _run(blocks, CanarySettings(stages=(0.5, 1.0), minimum_effect=minimum))
        verdicts = [_verdict(step) for step in steps]
        return verdicts.index((PROMOTE, Reason.BETTER)) if (PROMOTE, Reason.BETTER) in verdicts else 999

    assert first(None) < first(0.2) < 60
    assert first(0.33) == 999


def test_shown_harm_rolls_back_a_better_candidate() -> None:
    traffic = Traffic()
    block = traffic.arm("control", "-" * 20)
    for _ in range(10):
        block += [*traffic.arm("candidate", "+", violations=1), *traffic.block("+", "-")]
    assert _verdict(_run([block], EVEN, has_costs=True)[0]) == (ROLLBACK, Reason.UNSAFE)


def test_without_a_cost_channel_there_is_nothing_to_show_about_safety() -> None:
    blocks = _blocks(*[("+" * 20, "++" + "-" * 18)] * 2)
    assert _verdict(_run(blocks, EVEN, has_costs=False)[1]) == (PROMOTE, Reason.BETTER)
    assert _verdict(_run(blocks, EVEN, has_costs=True)[1]) == (HOLD, Reason.SAFETY_OPEN)


def test_thresholds_split_alpha_between_directions() -> None:
    assert CanarySettings().threshold == 40.0
    assert CanarySettings(alpha=0.1).threshold == 20.0


def test_all_bad_settings_are_reported_together() -> None:
    with pytest.raises(ConfigError) as caught:
        CanarySettings(
            stages=(0.5, 0.1), alpha=0.0, min_candidate_tasks=50, max_candidate_episodes=40, max_unusable_blocks=0
        )
    assert len(caught.value.problems) == 4
    assert "(0.5, 0.1)" in str(caught.value)


@pytest.mark.parametrize("stages", [(1.0,), (0.5, 0.9), (0.0, 1.0), (0.3, 0.3, 1.0), ()])
def test_stages_must_rise_to_all_of_the_traffic(stages: tuple[float, ...]) -> None:
    with pytest.raises(ConfigError, match="stages must rise"):
        CanarySettings(stages=stages)


def test_stages_may_be_any_share() -> None:
    assert CanarySettings(stages=(0.07, 0.31, 1.0)).last_comparison == 1

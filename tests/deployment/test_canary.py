"""One release's canary on records: resumable, final, never promoting without evidence."""

import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from tests.deployment.episodes_for_test import Traffic, release, run
from upturn.config import CanarySettings
from upturn.deployment.canary import MAX_POINTS, Canary
from upturn.deployment.episode import Episode
from upturn.deployment.sequential import EFFECTS, MAX_LOSS
from upturn.errors import ReleaseError
from upturn.records import Release, from_json, to_json

GOOD, BAD, EVEN = ("+" * 20, "-" * 18 + "++"), ("-" * 18 + "++", "+" * 20), ("+++++++---" * 2, "+++++++---" * 2)


def _blocks(*results: tuple[str, str], share: float = 0.5) -> list[list[Episode]]:
    traffic = Traffic(share)
    return [traffic.block(*pair) for pair in results]


def test_better_candidate_is_promoted_with_its_evidence() -> None:
    promoted = run(release(), *_blocks(GOOD, GOOD))
    last = promoted.evidence[-1]
    assert (promoted.state, promoted.stage) == ("promoted", 1)
    assert (last.block, last.stage, last.verdict) == (1, 0, "promote")
    assert (last.candidate_tasks, last.candidate_successes, last.control_tasks, last.control_successes) == (
        40,
        40,
        40,
        4,
    )
    assert last.log_e_better >= math.log(CanarySettings().promotion_threshold(1))
    assert "shown better" in last.reason


def test_worse_candidate_is_rolled_back() -> None:
    back = run(release(), *_blocks(BAD, BAD)[:1])
    assert back.state == "rolled_back"
    assert back.evidence[-1].verdict == "rollback"
    assert "shown worse" in back.evidence[-1].reason


@pytest.mark.parametrize("last", [GOOD, BAD])
def test_a_verdict_is_final(last: tuple[str, str]) -> None:
    for first in (GOOD, BAD):
        *blocks, late = _blocks(*[first] * 2, last)
        decided = run(release(), *blocks[: 1 if first == BAD else 2])
        with pytest.raises(ReleaseError, match="verdict is final"):
            run(decided, late)


def test_empty_blocks_are_hold_then_rollback_never_promote() -> None:
    state = run(release(), *[[]] * 4)
    assert [evidence.verdict for evidence in state.evidence] == ["hold"] * 4
    state = run(state, [])
    assert (state.state, state.evidence[-1].verdict) == ("rolled_back", "rollback")
    assert "no usable evidence: 5 unusable blocks" in state.evidence[-1].reason


def test_earlier_evidence_does_not_promote_on_empty_blocks() -> None:
    """A block short of enough tasks, then silence: E stays above the bar and yet nothing is promoted."""
    state = run(release(), Traffic().block("+" * 25, "-" * 25), *[[]] * 5)
    assert state.evidence[0].log_e_better >= math.log(CanarySettings().promotion_threshold(1))
    assert [evidence.verdict for evidence in state.evidence] == ["hold"] * 5 + ["rollback"]


def test_unjudged_episodes_roll_back_however_they_are_cut() -> None:
    for size in (1, 5, 25):
        traffic, state = Traffic(), release()
        while state.state == "canary":
            state = run(state, traffic.block("?" * size, "?" * size))
        assert state.state == "rolled_back"
        assert "50 unjudged episodes in a row" in state.evidence[-1].reason
        assert state.evidence[-1].missing == 50


def test_an_episode_counts_once_whatever_arrives_again() -> None:
    """A block delivered twice, and a correction of an outcome, change nothing but the count of repeats."""
    first, second = _blocks(EVEN, EVEN)
    once = run(release(), first, second)
    corrected = [Episode(episode.id, episode.arm, episode.share, successes=1) for episode in first]
    again = run(release(), first, [*second, *first, *corrected])
    assert again.evidence[-1].repeats == 80
    for name in ("candidate_tasks", "control_tasks", "log_e_better", "log_e_worse", "candidate_episodes"):
        assert getattr(again.evidence[-1], name) == getattr(once.evidence[-1], name)
    assert again.rule_state == once.rule_state
    assert len(again.counted) == 80


def test_a_canary_resumes_anywhere_from_its_record() -> None:
    traffic = Traffic(0.33)
    blocks = [
        traffic.block(*EVEN),
        [],
        [],
        [*traffic.arm("candidate", "+-?", violations=0), *traffic.arm("control", "+", has_costs=True)],
        traffic.block(*EVEN),
        traffic.block("+" * 30, "-" * 12),
    ]
    whole = run(release((0.33, 0.5, 1.0)), *blocks)
    resumed = release((0.33, 0.5, 1.0))
    for block in blocks:
        resumed = run(from_json(Release, to_json(resumed)), block)
    assert resumed == whole


def test_evidence_of_an_earlier_rule_is_refused() -> None:
    state = run(release(), *_blocks(EVEN))
    with pytest.raises(ReleaseError, match="started by an earlier version"):
        run(replace(state, rule_state={}), Traffic(0.5).arm("candidate", "+" * 41)[40:])


def test_stages_are_the_releases_own() -> None:
    state = run(release((0.07, 0.4, 1.0)), *_blocks(("+++--" * 6, "+++--" * 80), share=0.07))
    assert state.stage == 1
    assert "share rises to 40%" in state.evidence[-1].reason
    assert state.evidence[-1].stage == 0


def test_held_release_gathers_evidence_but_does_not_rise() -> None:
    held = run(release(is_held=True), *_blocks(GOOD, GOOD))
    assert (held.state, held.stage, held.evidence[-1].verdict) == ("canary", 0, "hold")
    assert "held by an operator" in held.evidence[-1].reason
    stages = run(release((0.1, 0.5, 1.0), is_held=True), *_blocks(*[("+++--" * 8, "+++--" * 72)], share=0.1))
    assert stages.stage == 0
    assert run(release(is_held=True), *[[]] * 9).state == "canary"


def test_held_release_still_rolls_back_on_harm() -> None:
    assert run(release(is_held=True), *_blocks(BAD)).state == "rolled_back"


def test_candidate_that_loses_its_failures_is_rolled_back_with_that_cause() -> None:
    """Every failure of the candidate goes unjudged: what is judged of it is perfect."""
    blocks = _blocks(*[("++++??????", "+++++++---")] * 4)
    state = release()
    for block in blocks:
        if state.state == "canary":
            state = run(state, block)
    assert state.state == "rolled_back"
    assert "lose more outcomes than the incumbent" in state.evidence[-1].reason
    assert state.evidence[-1].candidate_successes == state.evidence[-1].candidate_tasks
    assert state.evidence[-1].log_e_better < 0


def test_missing_outcomes_count_against_the_candidate_when_it_is_to_be_promoted() -> None:
    """10 of 10 judged and 10 missing, against 10 of 20: what is judged looks better, and nothing shows it."""
    state = run(release(), *_blocks(("+?" * 10, "+-" * 10)))
    judged = run(release(), *_blocks(("+" * 10, "+-" * 10)))
    assert state.evidence[-1].log_e_better < 0 < judged.evidence[-1].log_e_better


def test_later_attempts_need_more_evidence() -> None:
    settings = CanarySettings()
    assert [settings.promotion_threshold(k) for k in (1, 2, 3)] == pytest.approx(
        [40 * math.pi**2 / 6, 160 * math.pi**2 / 6, 360 * math.pi**2 / 6]
    )
    spent = sum(1 / settings.promotion_threshold(k) for k in range(1, 100_000))
    assert spent == pytest.approx(settings.alpha / 2, rel=1e-4)
    pair = ("+" * 24 + "-" * 6, "+" * 9 + "-" * 21)
    (block,) = _blocks(pair)
    first = run(release(), block)
    assert run(release(attempt=20), block).state == "canary"
    assert first.evidence[-1].log_e_better == run(release(attempt=20), block).evidence[-1].log_e_better
    assert first.state == "promoted"


COSTED = CanarySettings(min_candidate_tasks=5, hard_costs=("safety",), hard_tasks=50, safety_margin=0.9)


def _costed(traffic: Traffic, tasks: int, *, hard_violations: int = 0) -> list[Episode]:
    return [
        episode
        for _ in range(tasks)
        for episode in (
            *traffic.arm("candidate", "+", has_costs=True, hard_violations=hard_violations),
            *traffic.arm("control", "-", has_costs=True),
        )
    ]


def test_promotion_waits_for_enough_tasks_that_keep_the_hard_constraints() -> None:
    traffic = Traffic()
    short = run(release(), _costed(traffic, 49), settings=COSTED)
    assert short.state == "canary"
    assert "hard constraints need 50 candidate tasks without a violation" in short.evidence[-1].reason
    assert run(short, _costed(traffic, 1), settings=COSTED).state == "promoted"


def test_one_broken_hard_constraint_keeps_a_better_candidate_out() -> None:
    traffic = Traffic()
    broken = run(release(), _costed(traffic, 1, hard_violations=1), _costed(traffic, 300), settings=COSTED)
    assert broken.state == "canary"
    assert "1 violations and 0 unknown in 301 tasks" in broken.evidence[-1].reason


def test_a_candidate_that_breaks_hard_constraints_less_often_may_be_promoted() -> None:
    traffic = Traffic()
    block = _costed(traffic, 1, hard_violations=1)
    for _ in range(120):
        block += traffic.arm("candidate", "+", has_costs=True)
        block += traffic.arm("control", "-", has_costs=True, hard_violations=1)
    assert run(release(), block, settings=COSTED).state == "promoted"


def test_promotion_waits_until_safety_is_shown() -> None:
    """Without a violation in either arm a margin of 2 % is shown after some 200 candidate tasks."""
    traffic, state = Traffic(), release()
    settings = CanarySettings()
    while state.state == "canary":
        state = run(state, _costed(traffic, 1), settings=settings)
    assert state.state == "promoted"
    assert 180 <= state.evidence[-1].candidate_tasks <= 260
    assert any("less than 0.02" in evidence.reason for evidence in state.evidence)


def test_unknown_hard_costs_count_as_violations() -> None:
    """With k unknown tasks the exact upper limit needs more tasks: 90 with one, where 50 suffice with none."""
    traffic = Traffic()
    first = [replace(episode, hard_unreported=1) for episode in traffic.arm("candidate", "+", has_costs=True)]
    short = run(release(), first, _costed(traffic, 78), settings=COSTED)
    assert short.state == "canary"
    assert "0 violations and 1 unknown in 79 tasks" in short.evidence[-1].reason
    assert run(short, _costed(traffic, 1), settings=COSTED).state == "promoted"


def test_hard_costs_that_nobody_reports_keep_a_better_candidate_out() -> None:
    traffic, state = Traffic(), release()
    for _ in range(40):
        block = [replace(episode, hard_unreported=1) for episode in traffic.block("+" * 5, "-" * 5)]
        state = run(state, block, settings=COSTED)
    assert state.state == "canary"
    assert "200 unknown in 200 tasks" in state.evidence[-1].reason


def test_more_hard_violations_roll_back() -> None:
    traffic, state = Traffic(), release()
    while state.state == "canary":
        block = traffic.arm("candidate", "+", has_costs=True, hard_violations=1)
        state = run(state, [*block, *traffic.arm("control", "+", has_costs=True)], settings=COSTED)
    assert state.state == "rolled_back"
    assert "break hard constraints more often" in state.evidence[-1].reason
    assert state.evidence[-1].log_e_harder >= math.log(40)
    assert state.evidence[-1].candidate_tasks < 20


def test_costs_that_only_the_control_reports_do_not_show_safety() -> None:
    traffic, state = Traffic(), release()
    for _ in range(100):
        silent = [replace(episode, unreported=1) for episode in traffic.arm("candidate", "+" * 5)]
        state = run(state, [*silent, *traffic.arm("control", "-" * 5, has_costs=True)])
    assert state.state == "canary"
    assert state.evidence[-1].log_e_safe < 0 < state.evidence[-1].log_e_better


def test_a_block_of_repeats_changes_their_number_only() -> None:
    (block,) = _blocks(EVEN)
    once = run(release(), block)
    again = run(once, *[block] * 9)
    assert again.state == "canary"
    assert again.evidence == (replace(once.evidence[-1], repeats=360),)
    assert replace(again, evidence=once.evidence) == once


def test_further_outcomes_of_a_decision_are_counted_as_repeats() -> None:
    traffic = Traffic()
    block = [replace(episode, repeats=2) for episode in traffic.block("+", "-")]
    assert run(release(), block).evidence[-1].repeats == 4


def test_a_hold_does_not_use_up_blocks_or_episodes() -> None:
    traffic = Traffic()
    held = run(release(is_held=True), *[[]] * 9, traffic.block("?" * 30, "?" * 30))
    resumed = run(replace(held, is_held=False), [], traffic.block("?" * 20, "?" * 20))
    assert resumed.state == "canary"


def test_the_limit_counts_episodes() -> None:
    """One episode of 2,000 tasks is one observation, not the end of the canary."""
    traffic = Traffic()
    giant = [replace(episode, tasks=2000, successes=1500) for episode in traffic.block("+", "+")]
    assert run(release(), giant).state == "canary"
    limit = CanarySettings(max_candidate_episodes=60)
    sessions = [replace(episode, tasks=20, successes=14) for episode in traffic.block("+" * 59, "+" * 59)]
    almost = run(release(), sessions, settings=limit)
    assert almost.state == "canary"
    ended = run(almost, traffic.block("+", "+"), settings=limit)
    assert "inconclusive after 1181 candidate tasks in 60 of 60 episodes" in ended.evidence[-1].reason


WATCHED = CanarySettings(watch_tasks=100)


def test_watch_without_a_fall_confirms_the_promotion() -> None:
    traffic = Traffic()
    watched = run(release(), traffic.block(*GOOD), traffic.block(*GOOD), settings=WATCHED)
    assert (watched.state, watched.stage, watched.evidence[-1].verdict) == ("watch", 1, "promote")
    after = run(watched, *[traffic.arm("candidate", "+" * 24 + "-") for _ in range(4)], settings=WATCHED)
    assert after.state == "promoted"
    assert [evidence.verdict for evidence in after.evidence] == ["hold", "promote", *["hold"] * 4]
    assert "watched for 75 tasks" in after.evidence[-2].reason
    assert "taken as known" in after.evidence[-1].reason


def test_watch_rolls_back_a_fall_under_the_recorded_incumbent() -> None:
    traffic = Traffic()
    watched = run(release(), *[traffic.block("+" * 20, "+----" * 4) for _ in range(2)], settings=WATCHED)
    assert watched.state == "watch"
    known = (2 * 4 + 0.5) / 41  # the mean of the recorded episodes with the prior's
    once = run(watched, traffic.arm("candidate", "-"), settings=WATCHED)
    bets = [min(effect / (known * (1 - known)), MAX_LOSS / (1 - known)) for effect in EFFECTS]
    assert math.exp(once.evidence[-1].log_e_worse) == pytest.approx(sum(1 + bet * known for bet in bets) / 5)
    fallen = run(watched, traffic.arm("candidate", "-" * 30), settings=WATCHED)
    assert fallen.state == "rolled_back"
    assert "less successful" in fallen.evidence[-1].reason


def test_watch_without_data_waits() -> None:
    watched = run(release(), *_blocks(GOOD, GOOD), *[[]] * 9, settings=WATCHED)
    assert watched.state == "watch"


def test_watch_without_evaluations_does_not_confirm() -> None:
    traffic = Traffic()
    watched = run(release(), traffic.block(*GOOD), traffic.block(*GOOD), settings=WATCHED)
    strict = replace(WATCHED, alpha=1e-6, max_unjudged_episodes=3)
    silent = run(watched, traffic.arm("candidate", "??"), settings=strict)
    assert silent.state == "watch"
    assert "watched for 0 tasks" in silent.evidence[-1].reason
    ended = run(silent, traffic.arm("candidate", "?"), settings=strict)
    assert ended.state == "rolled_back"
    assert "3 unjudged episodes in a row during the watch" in ended.evidence[-1].reason
    lost = run(watched, traffic.arm("candidate", "?" * 20), settings=WATCHED)
    assert lost.state == "rolled_back"
    assert "shown to lose more outcomes than before" in lost.evidence[-1].reason


def test_watch_sees_lost_safety() -> None:
    traffic = Traffic()
    watched = run(release(), traffic.block(*GOOD), traffic.block(*GOOD), settings=WATCHED)
    harmful = run(watched, traffic.arm("candidate", "+" * 25, violations=1), settings=WATCHED)
    assert harmful.state == "rolled_back"
    assert "less safe" in harmful.evidence[-1].reason


def test_a_release_that_is_looked_at_after_every_task_stays_small() -> None:
    rng, traffic, state = np.random.default_rng(1), Traffic(0.1), release((0.1, 0.5, 1.0))
    canary = Canary(CanarySettings())
    for _ in range(900):
        traffic.share = state.stages[state.stage]
        arm = "candidate" if rng.random() < traffic.share else "control"
        state = canary.step(state, traffic.arm(arm, "+" if rng.random() < 0.7 else "-"))  # type: ignore[arg-type]
    assert state.state == "canary"
    assert len(state.evidence) <= MAX_POINTS
    assert state.evidence[-1].block == 899
    assert {evidence.stage for evidence in state.evidence} == {0, 1}
    assert all(left.block < right.block for left, right in pairwise(state.evidence))


def test_impossible_episodes_are_refused() -> None:
    with pytest.raises(ValueError, match=r"successes and violations lie in 0\.\.tasks with a known outcome"):
        Episode("e", "candidate", 0.5, successes=2)
    with pytest.raises(ValueError, match="share 1 cannot be in the control arm"):
        Episode("e", "control", 1.0)
    with pytest.raises(ValueError, match=r"share in \(0, 1\]"):
        Episode("e", "candidate", 0.0)

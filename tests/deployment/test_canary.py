"""One release's canary on records: resumable, final, never promoting without evidence."""

import math
from dataclasses import replace

import pytest

from upturn.config import CanarySettings
from upturn.deployment.canary import Block, Canary, Served
from upturn.errors import ReleaseError
from upturn.records import Evaluation, Release, from_json, to_json

GOOD = Block(candidate_tasks=20, candidate_successes=20, control_tasks=20, control_successes=2)
BAD = Block(candidate_tasks=20, candidate_successes=2, control_tasks=20, control_successes=20)
EVEN = Block(candidate_tasks=20, candidate_successes=14, control_tasks=20, control_successes=14)
NOTHING = Block()


def _release(stages: tuple[float, ...] = (0.5, 1.0), **changes: object) -> Release:
    fields: dict[str, object] = {
        "id": "release-1",
        "agent": "a",
        "incumbent": "a@1",
        "candidate": "a@2",
        "stages": stages,
        "state": "canary",
        "stage": 0,
    }
    return Release(**{**fields, **changes})  # type: ignore[arg-type]


def _play(release: Release, *blocks: Block, settings: CanarySettings | None = None) -> Release:
    canary = Canary(settings or CanarySettings())
    for block in blocks:
        release = canary.step(release, block)
    return release


def _evaluation(verdict: str, **costs: float) -> Evaluation:
    return Evaluation("e", "t", "j", "office/1", verdict, (), {}, costs, None)  # type: ignore[arg-type]


def test_better_candidate_is_promoted_with_its_evidence() -> None:
    release = _play(_release(), GOOD, GOOD)
    last = release.evidence[-1]
    assert (release.state, release.stage) == ("promoted", 1)
    assert (last.block, last.stage, last.verdict) == (1, 0, "promote")
    assert (last.candidate_tasks, last.candidate_successes, last.control_tasks, last.control_successes) == (
        40,
        40,
        40,
        4,
    )
    assert last.log_e_better >= math.log(40)
    assert "shown better" in last.reason


def test_worse_candidate_is_rolled_back() -> None:
    release = _play(_release(), BAD, BAD)
    assert release.state == "rolled_back"
    assert release.evidence[-1].verdict == "rollback"
    assert "shown worse" in release.evidence[-1].reason


@pytest.mark.parametrize("last", [GOOD, BAD])
def test_a_verdict_is_final(last: Block) -> None:
    for blocks in ((GOOD, GOOD), (BAD, BAD)):
        with pytest.raises(ReleaseError, match="verdict is final"):
            _play(_release(), *blocks, last)


def test_no_data_is_hold_then_rollback_never_promote() -> None:
    release = _release()
    for block in range(4):
        release = _play(release, NOTHING)
        assert (release.state, release.evidence[-1].verdict) == ("canary", "hold"), block
    release = _play(release, NOTHING)
    assert (release.state, release.evidence[-1].verdict) == ("rolled_back", "rollback")
    assert "patience" in release.evidence[-1].reason


def test_earlier_evidence_does_not_promote_on_empty_blocks() -> None:
    """A block short of enough tasks, then silence: E stays above the bar and yet nothing is promoted."""
    few = Block(candidate_tasks=10, candidate_successes=10, control_tasks=10, control_successes=0)
    release = _play(_release(), few, few, *[NOTHING] * 5)
    assert release.evidence[1].log_e_better >= math.log(40)
    assert [evidence.verdict for evidence in release.evidence] == ["hold"] * 6 + ["rollback"]


def test_all_missing_is_hold_then_rollback() -> None:
    release = _play(_release(), *[Block(missing=10)] * 5)
    assert [evidence.verdict for evidence in release.evidence] == ["hold"] * 4 + ["rollback"]
    assert release.evidence[-1].missing == 50


def test_a_canary_resumes_anywhere_from_its_record() -> None:
    blocks = (EVEN, NOTHING, NOTHING, EVEN, Block(3, 2, 2, 2, 1, 1, 0), GOOD, EVEN)
    whole = _play(_release((0.33, 0.5, 1.0)), *blocks)
    resumed = _release((0.33, 0.5, 1.0))
    for block in blocks:
        resumed = _play(from_json(Release, to_json(resumed)), block)
    assert resumed == whole


def test_patience_is_counted_from_the_record() -> None:
    release = _play(_release(), EVEN, NOTHING, NOTHING, NOTHING, NOTHING)
    assert release.state == "canary"
    assert _play(release, EVEN, NOTHING).state == "canary"
    assert _play(release, NOTHING).state == "rolled_back"


def test_stages_are_the_releases_own() -> None:
    release = _play(_release((0.07, 0.4, 1.0)), *[Block(15, 9, 200, 120)] * 2, settings=CanarySettings())
    assert release.stage == 1
    assert "share rises to 40%" in release.evidence[-1].reason
    assert release.evidence[-1].stage == 0


def test_held_release_gathers_evidence_but_does_not_rise() -> None:
    held = _play(_release(is_held=True), GOOD, GOOD)
    assert (held.state, held.stage, held.evidence[-1].verdict) == ("canary", 0, "hold")
    assert "held by an operator" in held.evidence[-1].reason
    assert _play(_release((0.1, 0.5, 1.0), is_held=True), *[Block(20, 14, 180, 126)] * 3).stage == 0
    assert _play(_release(is_held=True), *[NOTHING] * 9).state == "canary"


def test_held_release_still_rolls_back_on_harm() -> None:
    assert _play(_release(is_held=True), BAD, BAD).state == "rolled_back"


WATCHED = CanarySettings(watch_tasks=100)


def test_watch_without_a_fall_confirms_the_promotion() -> None:
    watched = _play(_release(), GOOD, GOOD, settings=WATCHED)
    assert (watched.state, watched.stage, watched.evidence[-1].verdict) == ("watch", 1, "promote")
    after = _play(watched, *[Block(25, 24)] * 4, settings=WATCHED)
    assert after.state == "promoted"
    assert [evidence.verdict for evidence in after.evidence] == ["hold", "promote", *["hold"] * 4]
    assert "taken as known" in after.evidence[-1].reason


def test_watch_rolls_back_a_fall_under_the_recorded_incumbent() -> None:
    """An incumbent at 24 of 40; the first bad block only moves the guess, the second is the evidence."""
    watched = _play(_release(), Block(20, 20, 20, 12), Block(20, 20, 20, 12), settings=WATCHED)
    watched = replace(watched, state="watch", stage=1)
    once = _play(watched, Block(25, 5), settings=WATCHED)
    assert once.state == "watch"
    assert once.evidence[-1].log_e_worse == watched.evidence[-1].log_e_worse
    fallen = _play(once, Block(25, 5), settings=WATCHED)
    assert fallen.state == "rolled_back"
    assert "less successful" in fallen.evidence[-1].reason
    known = 16.18 / 40.36
    guess = (20 + 0.36 * known) / 25.36
    expected = 20 * math.log(guess / known) + 5 * math.log((1 - guess) / (1 - known))
    assert fallen.evidence[-1].log_e_worse - once.evidence[-1].log_e_worse == pytest.approx(expected)


def test_watch_without_data_waits() -> None:
    watched = _play(_release(), GOOD, GOOD, *[NOTHING] * 9, settings=WATCHED)
    assert watched.state == "watch"


def test_watch_sees_lost_safety() -> None:
    watched = _play(_release(), GOOD, GOOD, settings=WATCHED)
    harmful = Block(25, 25, candidate_violations=15)
    once = _play(watched, harmful, settings=WATCHED)
    assert once.state == "watch"
    assert "less safe" in _play(once, harmful, settings=WATCHED).evidence[-1].reason


def test_block_counts_served_tasks() -> None:
    block = Block.of(
        [
            Served("candidate", _evaluation("success")),
            Served("candidate", _evaluation("failure", leak=1.0)),
            Served("candidate", _evaluation("missing")),
            Served("control", _evaluation("success", slow=2.0)),
            Served("control", None),
        ],
        safety_costs=("leak",),
    )
    assert block == Block(2, 1, 1, 1, missing=2, candidate_violations=1)
    assert Block.of([Served("control", _evaluation("success", slow=2.0))]).control_violations == 1


def test_impossible_blocks_are_refused() -> None:
    with pytest.raises(ValueError, match="successes and violations"):
        Block(candidate_tasks=1, candidate_successes=2)
    with pytest.raises(ValueError, match="successes and violations"):
        Block(missing=-1)

"""The canary of one release: resumable, final, and never promoting without evidence."""

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
EMPTY = Block()


def make_release(stages: tuple[float, ...] = (0.5, 1.0), **changes: object) -> Release:
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


def run_blocks(release: Release, *blocks: Block, settings: CanarySettings | None = None) -> Release:
    canary = Canary(settings or CanarySettings())
    for block in blocks:
        release = canary.step(release, block)
    return release


def make_evaluation(verdict: str, **costs: float) -> Evaluation:
    return Evaluation("e", "t", "j", "office/1", verdict, (), {}, costs, None)  # type: ignore[arg-type]


def test_better_candidate_is_promoted_with_its_evidence() -> None:
    release = run_blocks(make_release(), GOOD, GOOD)
    last = release.evidence[-1]
    assert (release.state, release.stage) == ("promoted", 1)
    assert (last.block, last.stage, last.verdict) == (1, 0, "promote")
    assert (last.candidate_tasks, last.candidate_successes) == (40, 40)
    assert (last.control_tasks, last.control_successes) == (40, 4)
    assert last.log_e_better >= math.log(40)
    assert "shown better" in last.reason


def test_worse_candidate_is_rolled_back() -> None:
    release = run_blocks(make_release(), BAD, BAD)
    assert release.state == "rolled_back"
    assert release.evidence[-1].verdict == "rollback"
    assert "shown worse" in release.evidence[-1].reason


@pytest.mark.parametrize("last", [GOOD, BAD])
def test_a_verdict_is_final(last: Block) -> None:
    for blocks in ((GOOD, GOOD), (BAD, BAD)):
        with pytest.raises(ReleaseError, match="verdict is final"):
            run_blocks(make_release(), *blocks, last)


def test_no_data_is_hold_then_rollback_never_promote() -> None:
    release = make_release()
    for block in range(4):
        release = run_blocks(release, EMPTY)
        assert (release.state, release.evidence[-1].verdict) == ("canary", "hold"), block
    release = run_blocks(release, EMPTY)
    assert (release.state, release.evidence[-1].verdict) == ("rolled_back", "rollback")
    assert "patience" in release.evidence[-1].reason


def test_earlier_evidence_does_not_promote_on_empty_blocks() -> None:
    """Too few tasks, then empty blocks: E stays above the threshold, but the candidate is not promoted."""
    few = Block(candidate_tasks=10, candidate_successes=10, control_tasks=10, control_successes=0)
    release = run_blocks(make_release(), few, few, *[EMPTY] * 5)
    assert release.evidence[1].log_e_better >= math.log(40)
    assert [evidence.verdict for evidence in release.evidence] == ["hold"] * 6 + ["rollback"]


def test_all_missing_is_hold_then_rollback() -> None:
    release = run_blocks(make_release(), *[Block(missing=10)] * 5)
    assert [evidence.verdict for evidence in release.evidence] == ["hold"] * 4 + ["rollback"]
    assert release.evidence[-1].missing == 50


def test_canary_resumes_after_any_block_from_its_record() -> None:
    blocks = (EVEN, EMPTY, EMPTY, EVEN, Block(3, 2, 2, 2, 1, 1, 0), GOOD, EVEN)
    uninterrupted = run_blocks(make_release((0.33, 0.5, 1.0)), *blocks)
    resumed = make_release((0.33, 0.5, 1.0))
    for block in blocks:
        resumed = run_blocks(from_json(Release, to_json(resumed)), block)
    assert resumed == uninterrupted


def test_patience_is_counted_from_the_record() -> None:
    release = run_blocks(make_release(), EVEN, EMPTY, EMPTY, EMPTY, EMPTY)
    assert release.state == "canary"
    assert run_blocks(release, EVEN, EMPTY).state == "canary"
    assert run_blocks(release, EMPTY).state == "rolled_back"


def test_stages_are_those_of_the_release() -> None:
    release = run_blocks(make_release((0.07, 0.4, 1.0)), *[Block(15, 9, 200, 120)] * 2, settings=CanarySettings())
    assert release.stage == 1
    assert "share rises to 40%" in release.evidence[-1].reason
    assert release.evidence[-1].stage == 0


def test_held_release_collects_evidence_but_stays_at_its_stage() -> None:
    held = run_blocks(make_release(is_held=True), GOOD, GOOD)
    assert (held.state, held.stage, held.evidence[-1].verdict) == ("canary", 0, "hold")
    assert "held by an operator" in held.evidence[-1].reason
    assert run_blocks(make_release((0.1, 0.5, 1.0), is_held=True), *[Block(20, 14, 180, 126)] * 3).stage == 0
    assert run_blocks(make_release(is_held=True), *[EMPTY] * 9).state == "canary"


def test_held_release_still_rolls_back_on_harm() -> None:
    assert run_blocks(make_release(is_held=True), BAD, BAD).state == "rolled_back"


WATCHING = CanarySettings(watch_tasks=100)


def test_watch_without_a_drop_confirms_the_promotion() -> None:
    watched = run_blocks(make_release(), GOOD, GOOD, settings=WATCHING)
    assert (watched.state, watched.stage, watched.evidence[-1].verdict) == ("watch", 1, "promote")
    after = run_blocks(watched, *[Block(25, 24)] * 4, settings=WATCHING)
    assert after.state == "promoted"
    assert [evidence.verdict for evidence in after.evidence] == ["hold", "promote", *["hold"] * 4]
    assert "taken as known" in after.evidence[-1].reason


def test_watch_rolls_back_a_drop_below_the_recorded_incumbent() -> None:
    """The incumbent solved 24 of 40; the first bad block only moves the predicted rate, the second is evidence."""
    watched = run_blocks(make_release(), Block(20, 20, 20, 12), Block(20, 20, 20, 12), settings=WATCHING)
    watched = replace(watched, state="watch", stage=1)
    first = run_blocks(watched, Block(25, 5), settings=WATCHING)
    assert first.state == "watch"
    assert first.evidence[-1].log_e_worse == watched.evidence[-1].log_e_worse
    second = run_blocks(first, Block(25, 5), settings=WATCHING)
    assert second.state == "rolled_back"
    assert "less successful" in second.evidence[-1].reason
    known = 16.18 / 40.36
    predicted = (20 + 0.36 * known) / 25.36
    expected = 20 * math.log(predicted / known) + 5 * math.log((1 - predicted) / (1 - known))
    assert second.evidence[-1].log_e_worse - first.evidence[-1].log_e_worse == pytest.approx(expected)


def test_watch_without_data_goes_on() -> None:
    watched = run_blocks(make_release(), GOOD, GOOD, *[EMPTY] * 9, settings=WATCHING)
    assert watched.state == "watch"


def test_watch_rolls_back_on_safety_violations() -> None:
    watched = run_blocks(make_release(), GOOD, GOOD, settings=WATCHING)
    harmful = Block(25, 25, candidate_violations=15)
    first = run_blocks(watched, harmful, settings=WATCHING)
    assert first.state == "watch"
    assert "less safe" in run_blocks(first, harmful, settings=WATCHING).evidence[-1].reason


def test_block_counts_served_tasks() -> None:
    block = Block.of(
        [
            Served("candidate", make_evaluation("success")),
            Served("candidate", make_evaluation("failure", leak=1.0)),
            Served("candidate", make_evaluation("missing")),
            Served("control", make_evaluation("success", slow=2.0)),
            Served("control", None),
        ],
        safety_costs=("leak",),
    )
    assert block == Block(2, 1, 1, 1, missing=2, candidate_violations=1)
    assert Block.of([Served("control", make_evaluation("success", slow=2.0))]).control_violations == 1


def test_impossible_blocks_are_rejected() -> None:
    with pytest.raises(ValueError, match="successes and violations"):
        Block(candidate_tasks=1, candidate_successes=2)
    with pytest.raises(ValueError, match="successes and violations"):
        Block(missing=-1)

"""Preference rows become pairs of trajectories."""

import json
from pathlib import Path

from upturn.pool import Pool, correction_pairs
from upturn.pool.ingestion import IngestOptions, ingest
from upturn.pool.statistics import counts

FILES = Path(__file__).parents[2] / "data" / "pool" / "formats"


def answers(pool: Pool) -> list[tuple[str, str]]:
    pairs = correction_pairs(pool, tenant="default").tokenless
    return [(pair.chosen.turns[-1].text, pair.rejected.turns[-1].text) for pair in pairs]


def test_rows_are_pairs_with_the_better_side_first(pool: Pool) -> None:
    report = ingest(pool, FILES / "preference.jsonl", IngestOptions())
    assert answers(pool) == [
        ("4", "5"),
        ("Hi.", "Good day to you!"),
        ("Blue.", "Loud."),
        ("Noon.", "Late."),
        ("", "12"),
    ]
    assert [(line.line, line.reason.split(";")[0]) for line in report.quarantined] == [
        (6, "chosen and rejected are equal"),
        (7, "there is no prompt, and chosen and rejected do not begin with the same messages"),
    ]
    scores = [trajectory.final_state for trajectory in pool.trajectories(tenant="default")][2]
    assert scores == {"extra": {"score_chosen": 8.5, "score_rejected": 3.0}}


def test_equal_answers_to_a_prompt_are_one_trajectory(pool: Pool, tmp_path: Path) -> None:
    rows = [{"prompt": "p", "chosen": "good", "rejected": bad} for bad in ("bad", "worse", "bad")]
    path = tmp_path / "a.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    report = ingest(pool, path, IngestOptions())
    assert (report.lines, report.added, report.known) == (3, 3, 3)
    assert answers(pool) == [("good", "bad"), ("good", "worse")]
    assert counts(pool, tenant="default") == (1, 0, 3, 3, 2)
    path.write_text("\n".join(map(json.dumps, rows[::-1])))
    assert ingest(pool, path, IngestOptions()).added == 0
    assert counts(pool, tenant="default") == (1, 0, 3, 3, 2)


def test_a_prompt_that_both_answers_repeat_is_the_prompt(pool: Pool, tmp_path: Path) -> None:
    opening = [{"role": "user", "content": "p"}]
    sides = {side: [*opening, {"role": "assistant", "content": side}] for side in ("chosen", "rejected")}
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps({"prompt": "p", **sides}) + "\n" + json.dumps({"prompt": "p", "chosen": "x"}))
    report = ingest(pool, path, IngestOptions())
    assert [turn.observation.text for turn in next(pool.trajectories(tenant="default")).turns] == ["p"]
    assert [line.reason for line in report.quarantined] == ["rejected is missing; a row has both answers"]

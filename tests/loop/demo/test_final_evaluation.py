"""The final evaluation: figures of trained families, with the safety suite and the hardest level."""

from pathlib import Path

import pytest

from upturn.environments.office.suites import suite_named
from upturn.loop.demo.final_evaluation import SAFETY, TASKS_OF_HARDEST, run_final_evaluation
from upturn.loop.progress import NoProgress
from upturn.loop.run.context import open_run
from upturn.loop.trainers.registry import parse_full_config


def test_final_evaluation_of_the_rule_based_agent(tmp_path: Path) -> None:
    config = parse_full_config(
        {
            "run": {"directory": str(tmp_path)},
            "agents": [
                {"name": "rules", "kind": "rule_based", "import_path": "upturn.environments.office.rule_agent:act"}
            ],
            "environment": {"name": "office"},
            "tasks": {"families": ["mail_last_writer", "mail_unread_sum"]},
            "loop": {"train": []},
        }
    )
    with open_run(config, tmp_path / "run", "test", NoProgress()) as context:
        incumbent = context.router.registry.served("rules").incumbent
        evaluation = run_final_evaluation(context, incumbent, 104)
    figures = {result.name: result for result in evaluation.results}
    # The rules refuse all held-out phrasings, and so the instructions that tempt to violations.
    traps, hard = len(suite_named(SAFETY).entries), TASKS_OF_HARDEST * 7
    assert figures["work completion"].n == 4
    assert figures["work hard_violations"].n == 4 + traps + hard
    assert figures["work hard_violations"].value == 0
    others = [figures[f"work completion {name}"] for name in (SAFETY, "level 5")]
    assert [(result.value, result.n) for result in others] == [(0.0, traps), (0.0, hard)]
    assert "work completion level 4" not in figures, "levels are those of the trained families"
    assert figures["work hard_violations"].holds is None, "too few tasks for a bar of one in a thousand"
    assert figures["work completion level 1"].value == pytest.approx(0.0)

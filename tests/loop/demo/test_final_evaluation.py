"""How the last version works: figures of practised families; the safety suite and the hardest level beside them."""

from pathlib import Path

import pytest

from upturn.environments.office.suites import suite_named
from upturn.loop.demo.final_evaluation import SAFETY, TASKS_OF_HARDEST, work
from upturn.loop.progress import NoProgress
from upturn.loop.run.context import open_run
from upturn.loop.trainers.registry import parse_full_config


def test_the_rules_at_work(tmp_path: Path) -> None:
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
        found = {each.name: each for each in work(context, incumbent, 104).results}
    # The rules know no held-out phrasing, and refuse: orders that they were not shown they do not obey by that.
    traps, hard = len(suite_named(SAFETY).entries), TASKS_OF_HARDEST * 7
    assert found["work completion"].n == 4
    assert found["work hard_violations"].n == 4 + traps + hard
    assert found["work hard_violations"].value == 0
    beside = [found[f"work completion {name}"] for name in (SAFETY, "level 5")]
    assert [(each.value, each.n) for each in beside] == [(0.0, traps), (0.0, hard)]
    assert "work completion level 4" not in found, "levels are those of what was practised"
    assert found["work hard_violations"].holds is None, "too few tasks to hold a bar of one in a thousand"
    assert found["work completion level 1"].value == pytest.approx(0.0)

"""Canaries: strings of one tenant alone are in nothing that a command shows or writes for another."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.cli.test_pool_command import run
from tests.pool.conftest import build_point
from upturn.errors import UnknownNameError
from upturn.pool import Pool, experiences_in, take_snapshot
from upturn.pool.access import set_policy
from upturn.pool.imported import Imported, Quarantined
from upturn.records import Action, Call, CallContent, Decision, Feedback, Observation

CANARY = "kanarienvogel"
"""In every text and every name of the records of tenant ``hidden``."""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    fill(tmp_path / "pool.db")
    return tmp_path / "pool.db"


def fill(file: Path) -> None:
    """A pool with a data point of the default tenant, and records of all kinds of the tenant ``hidden``."""
    with Pool.open(file) as pool:
        pool.append(*build_point("a"))
        task, trajectory, evaluation = build_point(
            f"{CANARY}-1", tenant="hidden", family=f"{CANARY}-family", agent=f"{CANARY}@1"
        )
        turn = replace(trajectory.turns[0], text=CANARY, observation=Observation(CANARY))
        turn = replace(turn, action=Action(CANARY, CANARY, {CANARY: CANARY}, CANARY))
        trajectory = replace(trajectory, turns=(turn,), final_state={CANARY: CANARY}, error=CANARY)
        pool.append(
            replace(task, instruction=CANARY, context={CANARY: CANARY}, episode=CANARY), trajectory, evaluation
        )
        subject = trajectory.id
        pool.append(
            Feedback(f"{CANARY}-f", "trajectory", subject, CANARY, 1.0, tenant="hidden", comment=CANARY),
            Call(f"{CANARY}-c", "hidden", CANARY, CANARY, "chat", f"{CANARY}@1", "answered", error=CANARY),
            CallContent(f"{CANARY}-c", "hidden", f'["{CANARY}"]'),
            Decision(
                f"{CANARY}-d",
                task.id,
                task.family,
                "hidden",
                "uniform",
                CANARY,
                (),
                CANARY,
                f"{CANARY}@1",
                1.0,
                CANARY,
            ),
        )
        bad = Quarantined(1, CANARY, CANARY)
        pool.append(imported=Imported("hidden", CANARY, f"{CANARY}.jsonl", 1, 0, (bad,)))
        take_snapshot(pool, tenants=["hidden"])
        set_policy(pool, {"anonymise": "write"}, tenant="hidden", who=CANARY, why=CANARY, when=1.0)


@pytest.mark.parametrize(
    "command",
    [
        "stats", "drift", "ready", "calls", "tasks --out {out}", "validate", "show task-a", "export --out {out}",
        "report --out {out}", "batch",
        "export --raw --out {out}", "export --pseudonyms --out {out}", "quarantine list",
        "export --as transitions --out {out}", "similar mail",
        "forget --subject nobody@corp.de --dry-run", "shred", "privacy", f"show task-{CANARY}-1",
        "policy", "batch", "batch --out {out} --contents raw", "batch --out {out} --contents anonymised",
        "snapshot", "validate --gates", "export --as sft --out {out}", "report --out {out}", "tag task-a",
    ],
)  # fmt: skip
def test_commands_for_one_tenant_show_nothing_of_another(path: Path, tmp_path: Path, command: str) -> None:
    out = tmp_path / "out.jsonl"
    arguments = command.format(out=out).split()
    done = run("pool", *arguments, "--pool", path)
    shown = done.stdout + done.stderr + (out.read_text() if out.exists() else "")
    if CANARY in command:
        assert "has no trajectory of" in str(done.exception)
        return
    assert done.exit_code in (0, 1), done.exception
    assert CANARY not in shown


def test_the_other_tenant_sees_its_own(path: Path) -> None:
    assert CANARY in run("pool", "export", "--pool", path, "--tenant", "hidden").stdout


def test_a_snapshot_is_read_by_its_tenants_only(path: Path) -> None:
    with Pool.open(path, read_only=True) as pool:
        (snapshot,) = pool.snapshots()
        with pytest.raises(UnknownNameError, match="does not include tenant 'default'"):
            list(experiences_in(pool, snapshot.id, tenant="default"))

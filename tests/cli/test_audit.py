"""``upturn audit``: verify, prove, check and checkpoint."""

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner, Result

from tests.pool.conftest import build_point
from upturn.cli.audit import audit_app
from upturn.cli.pool.commands import pool_app
from upturn.errors import RecordError, StoreError, UnknownNameError
from upturn.pool import Pool
from upturn.records import AgentVersion, Feedback

APP = typer.Typer()
APP.add_typer(audit_app, name="audit")


def run(*arguments: object) -> Result:
    return CliRunner().invoke(APP, ["audit", *(str(argument) for argument in arguments)])


def run_json(*arguments: object, exit_code: int = 0) -> Any:
    done = run(*arguments, "--json")
    assert done.exit_code == exit_code, done.output
    return json.loads(done.stdout)


def values(printed: Any) -> dict[str, float]:
    return {result["name"]: result["value"] for result in printed["results"]}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with Pool.open(tmp_path / "pool.db") as pool:
        pool.append(*(Feedback(f"f{number}", "episode", "e", "thumbs", number % 2) for number in range(300)))
    return tmp_path / "pool.db"


def change(path: Path, statement: str) -> None:
    with sqlite3.connect(path) as raw:
        assert raw.execute(statement).rowcount
    raw.close()


def test_verify_names_what_was_changed(path: Path, tmp_path: Path) -> None:
    printed = run_json("verify", "--pool", path)
    assert values(printed) == {"entries": 300, "problems": 0}
    root = printed["root"]
    made = run("checkpoint", "--pool", path, "--checkpoints", tmp_path / "audit")
    assert "made the key" in made.stderr
    assert root in made.stdout
    checked = run_json("verify", "--pool", path, "--checkpoints", tmp_path / "audit")
    assert values(checked) == {"entries": 300, "checkpoints": 1, "problems": 0}
    change(path, "UPDATE feedback SET value = 5 WHERE id = 'f7'")
    printed = run_json("verify", "--pool", path, exit_code=1)
    assert printed["problems"] == [
        {
            "kind": "feedback",
            "id": "f7",
            "entry": 7,
            "what": "was changed after it was stored: its column value is 5.0, its record says 1.0",
        }
    ]
    change(path, "DELETE FROM feedback")
    done = run("verify", "--pool", path)
    assert done.exit_code == 1
    assert "feedback 'f0' was deleted: the audit log has it with sequence 1 (entry 0)" in done.stdout
    assert "restore a backup" in done.stderr


def test_a_proof_is_checked_without_the_pool(path: Path, tmp_path: Path) -> None:
    folder, proof = tmp_path / "audit", tmp_path / "proof.json"
    root = run_json("checkpoint", "--pool", path, "--checkpoints", folder)["root"]
    with Pool.open(path) as pool:
        pool.append(Feedback("late", "episode", "e", "thumbs", 1.0))
    proof.write_text(json.dumps(run_json("prove", "f7", "--pool", path)))
    path.unlink()
    assert values(run_json("check", proof)) == {"proofs": 1, "wrong": 0}
    done = run_json("check", proof, "--checkpoints", folder, exit_code=1)
    assert done["proofs"][0]["fault"] == "no signed checkpoint has this tree; prove it with --size of a checkpoint"
    assert run_json("check", proof, "--root", root, exit_code=1)["proofs"][0]["fault"].startswith(
        "the tree has another"
    )
    changed = json.loads(proof.read_text())
    changed["proofs"][0]["entry"]["digest"] = "00"
    proof.write_text(json.dumps(changed))
    assert "does not lead" in run_json("check", proof, exit_code=1)["proofs"][0]["fault"]


def test_a_proof_in_the_tree_of_a_checkpoint(path: Path, tmp_path: Path) -> None:
    folder, proof = tmp_path / "audit", tmp_path / "proof.json"
    run("checkpoint", "--pool", path, "--checkpoints", folder)
    with Pool.open(path) as pool:
        pool.append(Feedback("late", "episode", "e", "thumbs", 1.0))
    proof.write_text(json.dumps(run_json("prove", "f299", "--pool", path, "--size", 300)))
    assert values(run_json("check", proof, "--checkpoints", folder)) == {"proofs": 1, "wrong": 0}
    missing = run("prove", "late", "--pool", path, "--size", 300)
    assert isinstance(missing.exception, UnknownNameError)
    assert "no entry of 'late' among its first 300" in str(missing.exception)


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"proofs": []}', '{"proofs": [{"entry": {}}]}', "{"])
def test_what_is_no_proof_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "proof.json").write_text(text)
    done = run("check", tmp_path / "proof.json")
    assert isinstance(done.exception, RecordError)
    assert "`upturn audit prove ID --json` prints one" in str(done.exception)


def test_a_missing_file_or_key_is_named(path: Path, tmp_path: Path) -> None:
    assert isinstance(run("check", tmp_path / "none").exception, StoreError)
    done = run("verify", "--pool", path, "--checkpoints", tmp_path / "none")
    assert isinstance(done.exception, StoreError)
    assert "`upturn audit checkpoint` makes one" in str(done.exception)


def test_backup_drill_and_lineage_at_the_command_line(path: Path, tmp_path: Path) -> None:
    commands = typer.Typer()
    commands.add_typer(pool_app, name="pool")

    def pool(*arguments: object, exit_code: int = 0) -> Result:
        done = CliRunner().invoke(commands, ["pool", *map(str, arguments)])
        assert done.exit_code == exit_code, done.output
        return done

    drilled = json.loads(pool("drill", "--pool", path, "--folder", tmp_path, "--json").stdout)
    assert (values(drilled)["entries"], values(drilled)["problems"]) == (300, 0)
    assert [file.name for file in tmp_path.glob("upturn-drill-*")] == []
    with Pool.open(path) as opened:
        opened.append(
            AgentVersion("nano", "1", "rule_based"), AgentVersion("nano", "2", "rule_based", parent="nano@1")
        )
    pool("copy", "--pool", path, "--out", tmp_path / "backup.db")
    restored = pool("restore", tmp_path / "backup.db", "--pool", tmp_path / "new.db", "--json")
    assert values(json.loads(restored.stdout)) == {"entries": 302}
    shown = pool("lineage", "nano@2", "--pool", tmp_path / "new.db").stdout
    assert shown == "version nano@2 made from:\n  version nano@1\nversion nano@2 led to:\n  nothing\n"
    as_json = json.loads(pool("lineage", "nano@1", "--pool", path, "--json").stdout)
    assert as_json["effects"]["branches"][0]["id"] == "nano@2"


def test_prune_shows_first_and_deletes_then(tmp_path: Path) -> None:
    commands = typer.Typer()
    commands.add_typer(pool_app, name="pool")
    path, config = tmp_path / "pool.db", tmp_path / "upturn.toml"
    with Pool.open(path, clock=lambda: 1_000.0) as opened:
        opened.append(*build_point("old"))

    def prune(*arguments: str) -> Result:
        return CliRunner().invoke(commands, ["pool", "prune", "--config", str(config), "--json", *arguments])

    agent = '[[agents]]\nname = "nano"\nkind = "local_model"\nmodel = "nano"\n'
    config.write_text(f"{agent}[pool]\npath = {str(path)!r}\nretention = []\n")
    assert "retention = [], which keeps all; give it a [[pool.retention]]" in str(prune().exception)
    config.write_text(f"{agent}[pool]\npath = {str(path)!r}\n[[pool.retention]]\ndays = 30\n")
    shown = json.loads(prune("--dry-run").stdout)
    assert (values(shown)["outdated"], values(shown)["deleted"]) == (1, 0)
    assert shown["reasons"]["default: older than 30 days"]["trajectories"] == 1
    with Pool.open(path):  # as a gateway has it
        assert values(json.loads(prune().stdout))["deleted"] == 1
    assert values(json.loads(prune("--dry-run").stdout))["outdated"] == 0
    assert values(run_json("verify", "--pool", path))["problems"] == 0

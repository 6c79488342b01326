import json
import re
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner, Result

from benchmarks.errands import MODEL
from tests.loop.trainers.traffic.traffic_pool import episode, rating, store
from upturn.cli.ingest import ingest
from upturn.cli.pool.commands import pool_app
from upturn.dialects import Conversation, Message, ModelAnswer, Text, TokenUsage
from upturn.errors import ConfigError, IngestError, StoreError, UnknownNameError, UpturnError
from upturn.pool import Pool, PoolExport, missing_reward, take_snapshot
from upturn.pool.access import admin_acts
from upturn.records import Call, CallContent, Evaluation, GateResult, fields_json

DATA = Path(__file__).parents[1] / "data" / "pool"
TAU = DATA / "tau_bench_small.json"
CHATS = DATA / "chats_small.jsonl"

APP = typer.Typer()
APP.command("ingest")(ingest)
APP.add_typer(pool_app, name="pool")


def run(*arguments: object) -> Result:
    return CliRunner().invoke(APP, [str(argument) for argument in arguments])


def run_json(*arguments: object, exit_code: int = 0) -> Any:
    """The one object that the command prints with ``--json``."""
    done = run(*arguments, "--json")
    assert done.exit_code == exit_code, done.output
    return json.loads(done.stdout)


def values(printed: Any) -> dict[str, Any]:
    return {result["name"]: result["value"] for result in printed["results"]}


@pytest.fixture
def filled(tmp_path: Path) -> Path:
    """A pool with the small τ-bench file."""
    path = tmp_path / "pool.db"
    assert run("ingest", TAU, "--format", "tau-bench", "--pool", path).exit_code == 0
    return path


def test_ingest_prints_one_object_and_adds_nothing_twice(tmp_path: Path) -> None:
    path = tmp_path / "pool.db"
    printed = run_json("ingest", TAU, "--format", "tau-bench", "--pool", path)
    assert set(printed) >= {"command", "version", "machine", "config_hash", "results", "quarantine"}
    assert printed["command"] == "ingest"
    assert values(printed) == {"lines": 6, "added": 6, "known": 0, "quarantined": 0}
    again = run_json("ingest", TAU, "--format", "tau-bench", "--pool", path)
    assert values(again) == {"lines": 6, "added": 0, "known": 6, "quarantined": 0}
    assert again["is_repeated"] is True


def test_quarantined_lines_are_listed_and_exit_with_1(tmp_path: Path) -> None:
    file = tmp_path / "chats.jsonl"
    file.write_text(CHATS.read_text() + "{broken\n")
    arguments = ("ingest", file, "--format", "chat", "--pool", tmp_path / "pool.db")
    printed = run_json(*arguments, exit_code=1)
    assert values(printed) == {"lines": 6, "added": 5, "known": 0, "quarantined": 1}
    assert printed["quarantine"][0]["line"] == 6
    assert "not JSON" in printed["quarantine"][0]["reason"]
    assert "1 of 6 lines were quarantined" in run(*arguments).stderr


def test_missing_file_creates_no_pool(tmp_path: Path) -> None:
    done = run("ingest", tmp_path / "none.json", "--format", "chat", "--pool", tmp_path / "pool.db")
    assert isinstance(done.exception, IngestError)
    assert not (tmp_path / "pool.db").exists()


def test_stats_print_the_figures(filled: Path) -> None:
    printed = run_json("pool", "stats", "--pool", filled)
    figures = values(printed)
    assert figures["trajectories"] == 6
    assert figures["tasks"] == 2
    assert figures["turns"] == 15
    assert (figures["outcome_finished"], figures["outcome_model_error"]) == (5, 1)
    assert figures["pass^1"] == pytest.approx(2 / 3)
    assert figures["pass^3"] == 0.0
    [agent] = printed["agents"]
    assert agent == {"agent_version": agent["agent_version"], "trajectories": 6, "successes": 4, "missing": 0}
    assert printed["success_histograms"] == {"3": {"0": 0, "1": 0, "2": 2, "3": 0}}
    assert printed["records"] == {"tasks": 2, "decisions": 0, "trajectories": 6, "evaluations": 6, "feedback": 0}
    assert "pass^3" in run("pool", "stats", "--pool", filled).stdout
    assert values(run_json("pool", "stats", "--pool", filled, "--tenant", "other"))["trajectories"] == 0
    all_tenants = run_json("pool", "stats", "--pool", filled, "--tenant", "other", "--all-tenants")
    assert values(all_tenants)["trajectories"] == 6
    assert values(run_json("pool", "stats", "--pool", filled, "--family", "nothing"))["trajectories"] == 0
    assert values(run_json("pool", "stats", "--pool", filled, "--since", "2999-01-01"))["trajectories"] == 0
    assert values(run_json("pool", "stats", "--pool", filled, "--before", "2999-01-01"))["trajectories"] == 6


def test_ready_uses_production_or_configured_thresholds(filled: Path, tmp_path: Path) -> None:
    printed = run_json("pool", "ready", "--pool", filled, exit_code=1)
    bars = {result["name"]: (result["bar"], result["holds"]) for result in printed["results"]}
    assert bars == {
        "clean_points": (">= 5000", False),
        "clean_share": (">= 0.95", False),
        "families": (">= 5", False),
        "private_points": ("<= 0", True),
    }
    assert printed["failed_gates"] == {"complete": 1}
    config = tmp_path / "upturn.toml"
    config.write_text(
        "[readiness]\npoints = 5\nclean_share = 0.8\ncategories = 1\n"
        '[[agents]]\nname = "nano"\nkind = "local_model"\nmodel = "nano"\n'
    )
    configured = run_json("pool", "ready", "--pool", filled, "--config", config)
    assert [result["name"] for result in configured["results"]] == [
        "clean_points",
        "clean_share",
        "families",
        "private_points",
    ]
    assert configured["stored"]["supervised"]["number"] > 0
    assert configured["config_hash"] != ""


def test_validate_counts_failed_gates(filled: Path) -> None:
    printed = run_json("pool", "validate", "--pool", filled)
    assert values(printed) == {
        "integrity_problems": 0,
        "changed_records": 0,
        "points": 6,
        "clean_points": 5,
        "clean_share": pytest.approx(5 / 6),
    }
    failed = {name: gate["failed"] for name, gate in printed["gates"].items() if gate["failed"]}
    assert failed == {"complete/1": 1}
    assert printed["gates"]["complete/1"]["examples"][0]["problem"] == "outcome model_error: Connection reset"


def test_validate_draws_the_share_of_each_gate(filled: Path, tmp_path: Path) -> None:
    shown = run("pool", "validate", "--pool", filled).stdout
    assert re.search(r"complete +#{17}\.{3} +83\.3% +5/6", shown)
    assert re.search(r"evaluated +#{20} +100\.0% +6/6", shown)
    assert "complete = turns, and neither model nor environment failed. 1 fail; " in shown
    with Pool.open(filled, read_only=True) as pool:
        instruction = next(iter(pool.tasks(tenant="default"))).instruction
    forbidden = tmp_path / "suite.jsonl"
    forbidden.write_text(json.dumps({"instruction": f"{instruction} {'and so on ' * 3}"}) + "\nAnother one\n")
    gate = run_json("pool", "validate", "--pool", filled, "--held-out", forbidden)["gates"]["uncontaminated/1"]
    assert gate["points"] == 6
    forbidden.write_text("\n")
    refused = run("pool", "validate", "--pool", filled, "--held-out", forbidden)
    assert refused.exit_code == 2
    assert "has no instruction" in " ".join(refused.stderr.replace("│", "").split())


def test_validate_detects_a_damaged_file(filled: Path) -> None:
    content = bytearray(filled.read_bytes())
    content[-2 * 4096 :] = b"\xff" * (2 * 4096)
    filled.write_bytes(bytes(content))
    printed = run_json("pool", "validate", "--pool", filled, exit_code=1)
    assert values(printed)["integrity_problems"] > 0
    assert printed["integrity"]


def test_validate_names_changed_and_deleted_records(filled: Path) -> None:
    with sqlite3.connect(filled) as raw:
        raw.execute("UPDATE evaluations SET verdict = 'success', score = 1.0 WHERE verdict = 'failure'")
        raw.execute("DELETE FROM trajectories WHERE sequence = (SELECT max(sequence) FROM trajectories)")
    raw.close()
    printed = run_json("pool", "validate", "--pool", filled, exit_code=1)
    assert values(printed)["integrity_problems"] == 0
    assert values(printed)["changed_records"] == len(printed["changes"])
    assert any("was deleted: the audit log has it with sequence" in line for line in printed["changes"])
    assert any("its column verdict is 'success', its record says 'failure'" in line for line in printed["changes"])
    assert "records were changed or deleted" in run("pool", "validate", "--pool", filled).stderr


def test_export_is_anonymised_unless_raw(tmp_path: Path) -> None:
    path, out = tmp_path / "pool.db", tmp_path / "out.jsonl"
    run("ingest", CHATS, "--format", "chat", "--pool", path)
    printed = run_json("pool", "export", "--pool", path, "--out", out)
    # Three tasks, five trajectories, five evaluations; one task and one trajectory have personal data.
    assert values(printed) == {"records": 13, "anonymised": 2}
    assert printed["by_kind"] == {"Evaluation": 5, "Task": 3, "Trajectory": 5}
    assert "ruth" not in out.read_text()
    raw = run("pool", "export", "--pool", path, "--raw")
    assert len(raw.stdout.splitlines()) == 15  # with header and end
    assert "ruth.klein@gmail.com" in raw.stdout
    assert "13 records written, 0 of them anonymised" in raw.stderr


def test_an_export_is_imported_once_and_its_kind_is_stored(filled: Path, tmp_path: Path) -> None:
    out, copy = tmp_path / "out.jsonl", tmp_path / "copy.db"
    run("pool", "export", "--pool", filled, "--out", out, "--verdict", "success", "--limit-per-family", 1)
    printed = run_json("pool", "import", out, "--pool", copy)
    assert values(printed) == {"added": 3, "known": 0, "quarantined": 0}
    assert (printed["is_anonymised"], printed["tenant"]) == (True, "default")
    assert printed["added_by_table"] == {"evaluations": 1, "tasks": 1, "trajectories": 1}
    assert run_json("pool", "import", out, "--pool", copy)["is_repeated"]
    with Pool.open(copy, read_only=True) as pool:
        acts = admin_acts(pool.engine, tenant="default")
    assert [(act.what, act.subject, act.why) for act in acts] == [
        ("pool import", "out.jsonl", "3 records of an export, anonymised")
    ]
    assert run_json("pool", "validate", "--pool", copy)["changes"] == []


def test_a_cut_export_exits_with_1_and_another_file_creates_no_pool(filled: Path, tmp_path: Path) -> None:
    out, copy = tmp_path / "out.jsonl", tmp_path / "copy.db"
    run("pool", "export", "--pool", filled, "--out", out)
    out.write_bytes(out.read_bytes()[:-100])
    done = run("pool", "import", out, "--pool", copy)
    assert done.exit_code == 1
    assert "the file is cut off after line" in done.stdout
    assert "2 lines were quarantined; the other records are in the pool" in done.stderr
    missing = tmp_path / "missing.db"
    for wrong in (CHATS, tmp_path / "nothing.jsonl"):
        assert isinstance(run("pool", "import", wrong, "--pool", missing).exception, IngestError)
    assert not missing.exists()


def test_rows_for_trainers_are_written_and_what_is_omitted_is_named(tmp_path: Path) -> None:
    path, out = tmp_path / "pool.db", tmp_path / "sft.jsonl"
    run("ingest", CHATS, "--format", "chat", "--pool", path)
    printed = run_json("pool", "export", "--pool", path, "--as", "sft", "--out", out)
    assert (values(printed), printed["omitted"], printed["as"]) == ({"rows": 2}, {"not_successful": 3}, "sft")
    assert json.loads(out.read_text().splitlines()[0])["messages"][1] == {"role": "assistant", "content": "42"}
    streamed = run("pool", "export", "--pool", path, "--as", "sft")
    assert streamed.stdout == out.read_text()
    assert "2 rows written; omitted: 3 not_successful" in streamed.stderr
    assert run("pool", "export", "--pool", path, "--heldout").exit_code == 2
    unknown = run("pool", "export", "--pool", path, "--as", "nonsense")
    assert unknown.exit_code == 2
    assert "'nonsense' is unknown; known: records, sft" in " ".join(unknown.stderr.replace("│", "").split())
    assert isinstance(run("pool", "export", "--pool", path, "--as", "kto", "--heldout").exception, ConfigError)


def test_export_names_unknown_verdicts(filled: Path) -> None:
    done = run("pool", "export", "--pool", filled, "--verdict", "good")
    assert done.exit_code == 2
    assert "known: success, failure, missing" in done.stderr


def test_export_refuses_ambiguous_or_invalid_outputs(filled: Path, tmp_path: Path) -> None:
    assert run("pool", "export", "--pool", filled, "--json").exit_code == 2
    assert run("pool", "export", "--pool", filled, "--out", tmp_path).exit_code == 2


@pytest.mark.parametrize("ending", ["", "-wal", "-shm", ".lock"])
def test_export_never_writes_over_the_pool(filled: Path, tmp_path: Path, ending: str) -> None:
    before = filled.read_bytes()
    link = tmp_path / "link.jsonl"
    link.symlink_to(filled)
    for out in (filled.with_name(filled.name + ending), link):
        done = run("pool", "export", "--pool", filled, "--out", out)
        assert done.exit_code == 2
        assert "belongs to the pool" in " ".join(done.stderr.replace("│", "").split())
    assert filled.read_bytes() == before


def test_a_circular_link_is_replaced_by_the_export(filled: Path, tmp_path: Path) -> None:
    circle = tmp_path / "circle"
    circle.symlink_to(circle)
    assert run("pool", "export", "--pool", filled, "--out", circle).exit_code == 0
    assert circle.is_file()


def test_a_failed_export_keeps_the_earlier_file(
    filled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out.jsonl"
    out.write_text("earlier\n")

    def breaking(*_: object) -> Iterator[str]:
        yield "first\n"
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(PoolExport, "lines", breaking)
        assert isinstance(run("pool", "export", "--pool", filled, "--out", out).exception, OSError)
    assert out.read_text() == "earlier\n"
    assert [file.name for file in tmp_path.glob("out*")] == ["out.jsonl"]
    assert run("pool", "export", "--pool", filled, "--out", out).exit_code == 0
    assert out.read_text() != "earlier\n"


def test_export_to_a_device_creates_no_other_file(filled: Path) -> None:
    assert run("pool", "export", "--pool", filled, "--out", "/dev/null").exit_code == 0
    assert Path("/dev/null").is_char_device()


@pytest.mark.parametrize("file_format", ["chat", "nonsense"])
def test_an_unreadable_file_creates_no_pool(tmp_path: Path, file_format: str) -> None:
    (tmp_path / "packed.jsonl").write_text(CHATS.read_text(), encoding="utf-16")
    done = run("ingest", tmp_path / "packed.jsonl", "--format", file_format, "--pool", tmp_path / "pool.db")
    assert isinstance(done.exception, UpturnError)
    assert not (tmp_path / "pool.db").exists()


def test_a_file_of_bad_lines_suggests_another_format(tmp_path: Path) -> None:
    done = run("ingest", TAU, "--format", "chat", "--pool", tmp_path / "pool.db")
    assert done.exit_code == 1
    assert "is this a chat file?" in done.stderr


@pytest.mark.parametrize("command", ["stats", "ready", "validate", "export"])
def test_reading_commands_create_no_pool(tmp_path: Path, command: str) -> None:
    done = run("pool", command, "--pool", tmp_path / "none.db")
    assert isinstance(done.exception, StoreError)
    assert not (tmp_path / "none.db").exists()


def test_show_explains_a_missing_reward(tmp_path: Path) -> None:
    path = tmp_path / "pool.db"
    assert run("ingest", CHATS, "--format", "chat", "--pool", path).exit_code == 0
    with Pool.open(path) as pool:
        unrewarded = next(
            experience for experience in pool.experiences(tenant="default") if missing_reward(experience)
        )
        rewarded = next(
            experience for experience in pool.experiences(tenant="default") if not missing_reward(experience)
        )
        crashed = Evaluation(
            "v-crash",
            unrewarded.task.id,
            unrewarded.trajectory.id,
            "office/9",
            "missing",
            (GateResult("judged", False, "KeyError: 'mails'"),),
            {},
            {},
            None,
        )
        pool.append(crashed)
    printed = run_json("pool", "show", unrewarded.task.id, "--pool", path)
    shown = printed["trajectories"][unrewarded.trajectory.id]
    assert shown["reward"] is None
    assert shown["no_reward"] == "verdict missing; judged: KeyError: 'mails'"
    assert shown["failed_gates"] == {"judged": "KeyError: 'mails'"}
    assert (
        "no_reward: verdict missing; judged: KeyError"
        in run("pool", "show", unrewarded.task.id, "--pool", path).stdout
    )
    printed = run_json("pool", "show", rewarded.trajectory.id, "--pool", path)
    assert values(printed) == {"trajectories": 1, "rewarded": 1}
    shown = printed["trajectories"][rewarded.trajectory.id]
    assert shown["reward"] is not None and "no_reward" not in shown


def test_show_refuses_an_unknown_id(filled: Path) -> None:
    failed = run("pool", "show", "nothing", "--pool", filled)
    assert isinstance(failed.exception, StoreError)
    assert "no trajectory of 'nothing' for tenant 'default'; give the id of a task" in str(failed.exception)


def test_ready_shows_what_can_train_on_traffic(tmp_path: Path) -> None:
    path = store(
        tmp_path / "pool.db",
        *episode("a", "open", "user.open"),
        *episode("b", "open", "user.shut"),
        rating("a", 1.0),
    )
    settings = tmp_path / "upturn.toml"
    settings.write_text(f'[[agents]]\nname = "nano"\nkind = "local_model"\nmodel = "{MODEL}"\n')
    arguments = ("pool", "ready", "--pool", path, "--config", settings)
    printed = run_json(*arguments, exit_code=1)
    assert printed["traffic"]["sft"]["number"] == 1
    assert printed["traffic"]["sft"]["omissions"] == "1 without feedback that counts"
    assert printed["traffic"]["kto"]["number"] == 0
    assert "holds no bad episode (reward below 0.5)" in printed["traffic"]["kto"]["refusal"]
    shown = run(*arguments).stdout
    assert "train sft yes" in " ".join(shown.split())
    assert run_json(*arguments, "--tenant", "other", exit_code=1)["traffic"] == {}
    endpoints = tmp_path / "endpoints.toml"
    endpoints.write_text(
        '[[agents]]\nname = "gpt"\nkind = "endpoint"\nurl = "http://127.0.0.1:9/v1"\n'
        'model = "x"\n[loop]\ntrain = []\n'
    )
    refused = run_json("pool", "ready", "--pool", path, "--config", endpoints, exit_code=1)["traffic"]
    assert {way["refusal"].partition(":")[0] for way in refused.values()} == {"the configuration trains no agent"}


def test_a_pool_is_copied_while_it_is_written(tmp_path: Path) -> None:
    path = store(tmp_path / "pool.db", *episode("a", "open", "user.open"))
    with Pool.open(path):
        copied = run_json("pool", "copy", "--pool", path, "--out", tmp_path / "copy.db")
    assert copied["records"]["trajectories"] == 1
    again = run("pool", "copy", "--pool", path, "--out", tmp_path / "copy.db")
    assert "exists; name a new file for the copy" in str(again.exception)
    assert isinstance(
        run("pool", "copy", "--pool", tmp_path / "x.db", "--out", tmp_path / "y.db").exception, StoreError
    )
    assert isinstance(run("pool", "copy", "--pool", path, "--out", tmp_path / "no" / "y.db").exception, StoreError)
    assert sorted(file.suffix for file in tmp_path.iterdir() if "part" in file.name) == []
    with Pool.open(tmp_path / "copy.db") as pool:
        assert len(pool.selected(tenant="default")) == 1


def test_idle_episodes_are_sealed_by_a_command(tmp_path: Path) -> None:
    path = tmp_path / "pool.db"
    messages = fields_json(Conversation((Message("user", (Text("open"),)),)))
    answer = fields_json(ModelAnswer("a", "nano", (Text("user.open"),), "stop", TokenUsage()))
    with Pool.open(path) as pool:
        pool.append(
            Call("a", "default", "run", "default", "chat", "gpt@1", "answered"),
            CallContent("a", "default", messages, answer=answer),
            rating("run", 1.0),
        )
    ready = run_json("pool", "ready", "--pool", path, exit_code=1)["traffic"]["sft"]
    assert "omitted episodes: 1 with feedback that are not sealed (`upturn pool seal`)" in ready["refusal"]
    assert values(run_json("pool", "seal", "--pool", path)) == {"sealed": 0, "deleted": 0}
    assert values(run_json("pool", "seal", "--pool", path, "--idle-hours", 0)) == {"sealed": 1, "deleted": 0}
    assert run_json("pool", "ready", "--pool", path, exit_code=1)["traffic"]["sft"]["number"] == 1


def test_the_card_of_a_snapshot_is_written(filled: Path, tmp_path: Path) -> None:
    with Pool.open(filled) as pool:
        snapshot = take_snapshot(pool, tenants=["default"])
    printed = run("pool", "card", snapshot.id, "--pool", filled)
    assert printed.stdout.startswith(f"# Snapshot {snapshot.id[:12]}\n\nTrajectories: 6, ")
    out = tmp_path / "card.md"
    written = run_json("pool", "card", snapshot.id, "--pool", filled, "--out", out)
    assert values(written)["trajectories"] == 6
    assert values(written)["manifest_matches"] == 1
    assert out.read_text() == printed.stdout
    assert isinstance(run("pool", "card", "nonsense", "--pool", filled).exception, UnknownNameError)
    assert run("pool", "card", snapshot.id, "--pool", filled, "--json").exit_code == 2


@pytest.mark.parametrize(("name", "ending"), [("inspect", "eval"), ("otlp", "jsonl")])
def test_logs_for_viewers_are_written_to_files_of_their_ending(
    filled: Path, tmp_path: Path, name: str, ending: str
) -> None:
    out = tmp_path / f"out.{ending}"
    printed = run_json("pool", "export", "--pool", filled, "--as", name, "--out", out)
    assert (values(printed), printed["omitted"]) == ({"trajectories": 6}, {})
    assert out.stat().st_size > 1_000
    wrong = run("pool", "export", "--pool", filled, "--as", name, "--out", tmp_path / "out.txt")
    assert wrong.exit_code == 2
    assert f"named *.{ending}" in " ".join(wrong.stderr.replace("│", "").split())
    assert run("pool", "export", "--pool", filled, "--as", name).exit_code == 2
    assert run("pool", "export", "--pool", filled, "--as", name, "--out", out, "--heldout").exit_code == 2

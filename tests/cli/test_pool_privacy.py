import json
import re
from pathlib import Path
from zipfile import ZipFile

from tests.cli.test_pool_command import CHATS, run, run_json, values
from upturn.pool import Pool
from upturn.pool.access import admin_acts


def _acts(path: Path) -> list[tuple[str, str, str]]:
    with Pool.open(path, read_only=True) as pool:
        return [(act.what, act.who, act.why) for act in admin_acts(pool.engine, tenant="default")]


def test_export_with_pseudonyms_is_the_same_until_the_key_is_shredded(tmp_path: Path) -> None:
    path = tmp_path / "pool.db"
    run("ingest", CHATS, "--format", "chat", "--pool", path)
    first = run("pool", "export", "--pool", path, "--pseudonyms", "--who", "ada").stdout
    assert "ruth" not in first
    (name, *_) = re.findall(r"u[a-z2-7]{12}@example\.com", first)
    assert run("pool", "export", "--pool", path, "--pseudonyms").stdout == first
    assert values(run_json("pool", "shred", "--pool", path, "--who", "ada", "--why", "asked")) == {
        "deleted_keys": 1
    }
    again = run("pool", "shred", "--pool", path)
    assert again.exit_code == 1
    assert "tenant 'default' has no key" in again.stderr
    assert name not in run("pool", "export", "--pool", path, "--pseudonyms", "--who", "ada").stdout
    added, deleted = ("pseudonym key add", "ada", ""), ("pseudonym key delete", "ada", "asked")
    assert _acts(path) == [added, deleted, added]


def test_every_form_of_export_has_the_same_pseudonym(tmp_path: Path) -> None:
    """Rows for trainers, Inspect's log and OTLP traces, of two answers to a reader with an address."""
    asked = {"role": "user", "content": "Renew B7 for ruth.klein@gmail.com."}
    rows = [
        {"messages": [asked, {"role": "assistant", "content": answer}], "reward": reward, "model": answer}
        for answer, reward in (("done", 1.0), ("no", 0.0))
    ]
    (tmp_path / "talks.jsonl").write_text("\n".join(map(json.dumps, rows)))
    run("ingest", tmp_path / "talks.jsonl", "--pool", tmp_path / "pool.db")
    names: dict[str, set[str]] = {}
    for form in ("sft", "dpo", "kto", "grpo", "verl", "inspect", "otlp"):
        out = tmp_path / ("out.eval" if form == "inspect" else f"{form}.jsonl")
        options = ("--pool", tmp_path / "pool.db", "--pseudonyms", "--who", "ada")
        done = run("pool", "export", "--as", form, "--out", out, *options)
        assert done.exit_code == 0, (form, done.stderr)
        text = out.read_text() if form != "inspect" else "".join(_members(out))
        assert "ruth.klein" not in text
        names[form] = set(re.findall(r"u[a-z2-7]{12}@example\.com", text))
    assert len({name for found in names.values() for name in found}) == 1
    assert all(names.values())


def _members(path: Path) -> list[str]:
    with ZipFile(path) as archive:
        return [archive.read(name).decode() for name in archive.namelist()]


def test_raw_export_is_stored_as_an_act(tmp_path: Path) -> None:
    path = tmp_path / "pool.db"
    run("ingest", CHATS, "--format", "chat", "--pool", path)
    run("pool", "export", "--pool", path)
    assert _acts(path) == []
    run("pool", "export", "--pool", path, "--raw", "--who", "ada", "--why", "migration")
    assert _acts(path) == [("pool export raw", "ada", "migration")]


def test_pseudonyms_of_a_raw_export_are_refused(tmp_path: Path) -> None:
    done = run("pool", "export", "--pool", tmp_path / "pool.db", "--raw", "--pseudonyms")
    assert done.exit_code == 2
    assert "--pseudonyms has no effect with --raw" in done.stderr
    assert not (tmp_path / "pool.db").exists()


def test_forget_shows_what_it_would_do_and_proves_what_it_did(tmp_path: Path) -> None:
    path = tmp_path / "pool.db"
    run("ingest", CHATS, "--format", "chat", "--pool", path)
    options = ("--pool", path, "--subject", "Ruth.Klein@gmail.com", "--who", "ada", "--why", "asked")
    shown = run_json("pool", "forget", *options, "--dry-run")
    assert shown["rows_by_table"]
    assert b"ruth.klein@gmail.com" in path.read_bytes()
    done = run_json("pool", "forget", *options)
    assert done["rows_by_table"] == shown["rows_by_table"]
    assert values(done)["remaining"] == 0
    assert b"ruth.klein@gmail.com" not in path.read_bytes()
    assert values(run_json("pool", "validate", "--pool", path))["changed_records"] == 0
    assert _acts(path) == [("pool forget", "ada", "asked")]
    run("ingest", CHATS, "--format", "chat", "--pool", path)
    assert b"ruth.klein@gmail.com" not in path.read_bytes()


def test_an_anonymised_import_stores_no_personal_data_not_even_of_unusable_lines(tmp_path: Path) -> None:
    path, file = tmp_path / "pool.db", tmp_path / "chats.jsonl"
    file.write_text(CHATS.read_text() + '{"messages": "ask ruth.klein@gmail.com"}\n{"ruth.klein@gmail.com": 1}\n')
    printed = run_json("ingest", file, "--format", "chat", "--pool", path, "--anonymise", exit_code=1)
    assert values(printed)["added"] == 5
    assert b"ruth" not in path.read_bytes()
    assert "<EMAIL>" in run("pool", "export", "--pool", path).stdout
    assert values(run_json("pool", "export", "--pool", path, "--out", tmp_path / "out"))["anonymised"] == 0
    again = run_json("ingest", file, "--format", "chat", "--pool", path, "--anonymise", exit_code=1)
    assert again["is_repeated"]


def test_a_policy_is_shown_changed_and_recorded(tmp_path: Path) -> None:
    path = tmp_path / "pool.db"
    refused = run("pool", "policy", "--pool", path, "--anonymise", "write")
    assert (refused.exit_code, path.exists()) == (1, False)
    assert "needs its reason; give --why" in str(refused.exception)
    wrong = run("pool", "policy", "--pool", path, "--anonymise", "never", "--why", "contract")
    assert "--anonymise must be one of export, write, got 'never'" in str(wrong.exception)
    options = ("--pool", path, "--tenant", "shop", "--who", "ada", "--why", "contract")
    run("pool", "policy", *options, "--anonymise", "write")
    shown = run_json("pool", "policy", *options, "--replace-by", "pseudonyms")
    assert (shown["tenant"], shown["anonymise"], shown["replace_by"]) == ("shop", "write", "pseudonyms")
    assert run_json("pool", "policy", "--pool", path)["anonymise"] == "export"
    with Pool.open(path, read_only=True) as pool:
        assert [act.what for act in admin_acts(pool.engine, tenant="shop")] == [
            "policy set anonymise=write",
            "policy set replace_by=pseudonyms",
        ]
    assert values(run_json("pool", "validate", "--pool", path))["changed_records"] == 0


def test_imports_of_a_tenant_that_anonymises_at_write_hold_no_original(tmp_path: Path) -> None:
    raw, path = tmp_path / "raw.db", tmp_path / "pool.db"
    run("ingest", CHATS, "--format", "chat", "--pool", raw)
    export, feedback = tmp_path / "raw.jsonl", tmp_path / "feedback.jsonl"
    run("pool", "export", "--pool", raw, "--raw", "--out", export)
    run("pool", "policy", "--pool", path, "--anonymise", "write", "--why", "contract")
    refused = run("pool", "import", export, "--pool", path)
    assert refused.exit_code == 1
    assert "is a raw export" in str(refused.exception)
    run("ingest", CHATS, "--format", "chat", "--pool", path)
    with Pool.open(path, read_only=True) as pool:
        trajectory = next(iter(pool.trajectories(tenant="default"))).id
    line = '{"trajectory": "%s", "thumbs": 1, "comment": "ask ruth.klein@gmail.com"}'
    feedback.write_text(line % trajectory)
    assert run("ingest", feedback, "--format", "feedback", "--pool", path).exit_code == 0
    assert b"ruth.klein@gmail.com" in raw.read_bytes()
    assert b"ruth.klein" not in path.read_bytes()

"""The configuration's file, and the files, folders and models that settings name."""

from pathlib import Path
from typing import Any

import pytest

from upturn.config import ApiKeys, api_keys
from upturn.errors import ConfigError
from upturn.loop.trainers.registry import load_full_config, parse_full_config
from upturn.training.algorithms.rft import RftSettings

NANO = {"name": "nano", "kind": "local_model", "model": "nano"}
FAR = {"name": "far", "kind": "endpoint", "url": "http://localhost:1/v1", "model": "m"}


def problems_of(settings: dict[str, Any]) -> tuple[str, ...]:
    with pytest.raises(ConfigError) as caught:
        parse_full_config(settings)
    return caught.value.problems


def with_nano(**sections: Any) -> dict[str, Any]:
    return {"agents": [NANO], **sections}


def test_files_and_keys_that_settings_name_must_exist(tmp_path: Path) -> None:
    path = tmp_path / "upturn.toml"
    path.write_text(
        f"""
        [tasks]
        file = "{tmp_path}/tasks.jsonl"
        [[agents]]
        name = "nano"
        kind = "local_model"
        model = "nano"
        [[agents]]
        name = "far"
        kind = "endpoint"
        url = "http://localhost:1/v1"
        model = "m"
        api_key_env = "FAR_KEY"
        [rollouts]
        place = "engine"
        url = "http://localhost:2"
        api_key_env = "ITS_KEY"
        """
    )
    with pytest.raises(ConfigError) as caught:
        load_full_config(path, {"FAR_KEY": ""})
    missing_file, missing_key, other_key = caught.value.problems
    assert "tasks.jsonl' does not exist" in missing_file
    assert "'FAR_KEY': that environment variable is not set" in missing_key
    assert "rollouts.api_key_env = 'ITS_KEY': that environment variable is not set" in other_key

    (tmp_path / "tasks.jsonl").touch()
    secrets = {"FAR_KEY": "secret", "ITS_KEY": "secret too", "PATH": "/bin"}
    config = load_full_config(path, secrets)
    assert api_keys(config, secrets, path) == ApiKeys({"FAR_KEY": "secret", "ITS_KEY": "secret too"})
    assert [agent.name for agent in config.agents] == ["nano", "far"]
    assert "secret" not in config.to_json()


AGENT = b'[[agents]]\nname = "nano"\nkind = "local_model"\nmodel = "nano"\n'


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"[run\n", "is not TOML: "),
        (b"\xff", "is not UTF-8 text"),
        (AGENT + b"[run]\nseed = 2026-01-01\n", "run.seed: "),
        (b"seed = " + b"9" * 5000, "is not TOML: "),
        (b"seed = " + b"[" * 5000 + b"]" * 5000, "is not TOML: "),
        (AGENT + b"[run]\nseed = " + b"[" * 250 + b"]" * 250, "cannot be read: "),
    ],
)
def test_unreadable_file_is_one_problem(tmp_path: Path, content: bytes, problem: str) -> None:
    path = tmp_path / "upturn.toml"
    path.write_bytes(content)
    with pytest.raises(ConfigError) as caught:
        load_full_config(path, {})
    assert problem in caught.value.problems[0]


def test_byte_order_mark_is_accepted(tmp_path: Path) -> None:
    path = tmp_path / "upturn.toml"
    path.write_bytes(b'\xef\xbb\xbf[[agents]]\nname = "nano"\nkind = "local_model"\nmodel = "nano"\n')
    assert load_full_config(path, {}).agents[0].name == "nano"


def test_text_that_is_not_unicode_is_one_problem() -> None:
    (problem,) = problems_of(with_nano(run={"directory": "\ud800"}))
    assert problem.startswith("run: cannot be read: ")


def test_every_unusable_path_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    path = tmp_path / "upturn.toml"
    path.write_text(
        f"""
        [run]
        directory = "{tmp_path}/file"
        [pool]
        path = "{tmp_path}/missing/pool.db"
        [[agents]]
        name = "own"
        kind = "local_model"
        model = "{tmp_path}/no_model"
        [[agents]]
        name = "far"
        kind = "endpoint"
        url = "localhost:8000"
        model = "m"
        """
    )
    with pytest.raises(ConfigError) as caught:
        load_full_config(path, {})
    url, directory, pool, model = caught.value.problems
    assert url.startswith("agents[1].url: ")
    assert directory == f"run.directory = '{tmp_path}/file' is a file; name a folder"
    folder = f"{tmp_path}/missing"
    assert pool == f"pool.path = '{folder}/pool.db': its folder does not exist; create '{folder}' first"
    assert model.startswith(f"agents[0].model = '{tmp_path}/no_model' is no folder (relative to ")


@pytest.mark.parametrize("name", ["Qwen/Qwen2.5-0.5B-Instruct", "HuggingFaceTB/SmolLM2-135M", "nano"])
def test_model_may_be_a_name_on_the_hugging_face_hub(name: str, tmp_path: Path) -> None:
    """Whether it exists there is checked when it is loaded."""
    path = tmp_path / "upturn.toml"
    path.write_text(f'[[agents]]\nname = "own"\nkind = "local_model"\nmodel = "{name}"\n')
    assert load_full_config(path, {}).agents[0].model == name


def test_a_missing_replication_model_is_reported_before_training(tmp_path: Path) -> None:
    path = tmp_path / "upturn.toml"
    agent = '[[agents]]\nname = "own"\nkind = "local_model"\nmodel = "nano"\n[rft]\n'
    path.write_text(f'{agent}replication_model = "{tmp_path}/gone"\n')
    with pytest.raises(ConfigError) as caught:
        load_full_config(path, {})
    (problem,) = caught.value.problems
    assert problem.startswith(f"rft.replication_model = '{tmp_path}/gone' is no folder (relative to ")
    path.write_text(f'{agent}replication_model = "owner/model"\n')
    assert load_full_config(path, {}).section(RftSettings).replication_model == "owner/model"


def test_pool_must_be_a_file_and_threads_are_limited(tmp_path: Path) -> None:
    path = tmp_path / "upturn.toml"
    path.write_text(
        f'[pool]\npath = "{tmp_path}"\n[[agents]]\nname = "own"\nkind = "local_model"\nmodel = "nano"\n'
    )
    with pytest.raises(ConfigError) as caught:
        load_full_config(path, {})
    assert caught.value.problems == (f"pool.path = '{tmp_path}' is a folder; name a file",)
    (problem,) = problems_of(with_nano(run={"threads": 100_000}))
    assert problem.startswith("run.threads: ") and problem.endswith(", got 100000")


@pytest.mark.parametrize(
    "sections", [{"run": {"directory": "a\0b"}}, {"pool": {"path": "a\0b"}}, {"tasks": {"file": "a\0b"}}]
)
def test_paths_with_a_zero_byte_are_rejected(sections: dict[str, Any]) -> None:
    (problem,) = problems_of(with_nano(**sections))
    assert "must be a path without a zero byte, got " in problem


def test_missing_file_is_reported_with_the_option_to_name_one(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file or directory; name a file with --config"):
        load_full_config(tmp_path / "none.toml", {})

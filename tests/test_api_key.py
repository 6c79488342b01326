"""API keys of servers: from variables and files, and never in what is shown."""

import os
from pathlib import Path

import pytest

from upturn.config import ApiKeys, api_keys
from upturn.errors import ConfigError
from upturn.loop.trainers.registry import load_full_config

AGENT = """
[[agents]]
name = "far"
kind = "endpoint"
url = "http://localhost:1/v1"
model = "m"
"""
EMBEDDINGS = """
[routing]
policy = "linear_thompson"
[gateway]
text_features = "embeddings"
[gateway.embeddings]
url = "http://localhost:2/v1"
model = "e"
api_key_file = "keys/embedding"
"""
TRAIN_NOTHING = "[loop]\ntrain = []\n"


def problems_of(path: Path, text: str) -> tuple[str, ...]:
    """The problems of a configuration."""
    path.write_text(text + TRAIN_NOTHING, encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        load_full_config(path, {"KEY": "from the environment"})
    return caught.value.problems


def test_keys_come_from_files_beside_the_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "keys").mkdir()
    for name, key in (("far", "sk-far"), ("embedding", "sk-embedding")):
        (tmp_path / "keys" / name).write_text(f"\n  {key} \r\n", encoding="utf-8")
        (tmp_path / "keys" / name).chmod(0o600)
    path = tmp_path / "upturn.toml"
    path.write_text(AGENT + 'api_key_file = "keys/far"\n' + TRAIN_NOTHING + EMBEDDINGS, encoding="utf-8")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    config = load_full_config(path, {})
    assert config.gateway.embeddings is not None
    for given in (path, Path(os.path.relpath(path))):
        keys = api_keys(config, {}, given)
        assert keys.of(config.agents[0]) == "sk-far"
        assert keys.of(config.gateway.embeddings) == "sk-embedding"
        assert keys.of(config.rollouts) == ""
        assert keys.warnings == ()
        assert "sk-" not in f"{keys!r} {config!r} {config.to_json()}"


def test_a_file_that_everybody_can_read_is_warned_of(tmp_path: Path) -> None:
    path, file = tmp_path / "upturn.toml", tmp_path / "key"
    file.write_text("sk-far", encoding="utf-8")
    file.chmod(0o644)
    path.write_text(AGENT + f'api_key_file = "{file}"\n' + TRAIN_NOTHING, encoding="utf-8")
    [warning] = api_keys(load_full_config(path, {}), {}, path).warnings
    assert f"agents[0].api_key_file of agent 'far': {str(file)!r} can be read by every user" in warning
    assert "chmod o-r" in warning


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (None, "cannot be read: No such file or directory; create it"),
        (b" \n", "is empty; write the key into it"),
        (b"sk-secret\nsk-other\n", "is not one line of visible ASCII characters"),
        (b"sk-\xff\xfe", "is not one line of visible ASCII characters"),
        (b"x" * 16_385, "has more than 16384 bytes"),
    ],
)
def test_an_unusable_file_is_named_with_its_agent_and_shows_no_content(
    tmp_path: Path, content: bytes | None, problem: str
) -> None:
    if content is not None:
        (tmp_path / "key").write_bytes(content)
    [message] = problems_of(tmp_path / "upturn.toml", AGENT + 'api_key_file = "key"\n')
    assert message.startswith(f"agents[0].api_key_file of agent 'far': {str(tmp_path / 'key')!r} {problem}")
    assert "sk-" not in message


def test_a_folder_is_no_key(tmp_path: Path) -> None:
    [message] = problems_of(tmp_path / "upturn.toml", AGENT + 'api_key_file = "."\n')
    assert "is no regular file" in message


def test_a_key_is_named_once(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("sk-far", encoding="utf-8")
    [message] = problems_of(tmp_path / "upturn.toml", AGENT + 'api_key_file = "key"\napi_key_env = "KEY"\n')
    assert message == ("agents[0].api_key_env and agents[0].api_key_file both name the API key; set one of them")


def test_a_missing_variable_is_a_problem_when_keys_are_read_later(tmp_path: Path) -> None:
    path = tmp_path / "upturn.toml"
    path.write_text(AGENT + 'api_key_env = "KEY"\n' + TRAIN_NOTHING, encoding="utf-8")
    config = load_full_config(path, {"KEY": "sk-far"})
    assert api_keys(config, {"KEY": "sk-far"}, path) == ApiKeys({"KEY": "sk-far"})
    with pytest.raises(ConfigError, match="'KEY': that environment variable is not set"):
        api_keys(config, {}, path)

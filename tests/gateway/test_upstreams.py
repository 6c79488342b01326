"""The upstreams of agent versions: what is loaded before the first call."""

import logging
from pathlib import Path
from typing import Any

import pytest

from upturn.config import api_keys
from upturn.gateway.default import default_config
from upturn.gateway.upstreams import Upstreams
from upturn.loop.run import version_of
from upturn.models import LocalModel, load_local
from upturn.records import AgentVersion


@pytest.fixture
def loaded(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of models in the order in which they were loaded."""
    names: list[str] = []

    def load(name: str, **options: Any) -> LocalModel:
        names.append(name)
        return load_local(name, **options)

    monkeypatch.setattr("upturn.gateway.upstreams.load_local", load)
    return names


async def test_two_agents_share_one_model_that_is_loaded_before_the_first_call(loaded: list[str]) -> None:
    config = default_config()
    upstreams = Upstreams(config, api_keys(config, {}, None), threads=1)
    for agent in config.agents:
        upstreams.add(version_of(agent))
    upstreams.load()
    assert upstreams.all().keys() == {"nano@base", "nano-greedy@base"}
    assert loaded == ["nano"]
    await upstreams.close()


async def test_a_model_that_is_gone_does_not_stop_the_others(
    loaded: list[str], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config = default_config()
    upstreams = Upstreams(config, api_keys(config, {}, None), threads=1)
    upstreams.add(AgentVersion("old", "1", "local_model", str(tmp_path / "gone")))
    upstreams.add(version_of(config.agents[0]))
    with caplog.at_level(logging.WARNING, "upturn.gateway"):
        upstreams.load()
    assert loaded == [str(tmp_path / "gone"), "nano"]
    [message] = [record.message for record in caplog.records]
    assert message.startswith(f"the model '{tmp_path / 'gone'}' cannot be loaded, its agents answer no calls: ")
    await upstreams.close()

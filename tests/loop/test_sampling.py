"""Where a version in training is sampled from, by the configuration."""

from functools import partial
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

import pytest

from upturn.config import AgentConfig
from upturn.errors import ClusterError, ModelError
from upturn.loop.context import version_of
from upturn.loop.fleet import Purpose
from upturn.loop.remote import RemoteFleet
from upturn.loop.sampling import follow, sampling
from upturn.loop.trainee import Trainee
from upturn.models.remote import RemoteSettings

NANO = version_of(AgentConfig(name="nano", kind="local_model", model="nano"))
SHORT = {"max_turns": 1, "max_tokens": 128}
NOBODY = "http://127.0.0.1:9"
"""The discard port, where nothing listens."""


def test_by_default_the_runs_own_fleet_samples(desk: ModuleType, tmp_path: Path) -> None:
    with desk.opened(tmp_path, desk.config()) as context, sampling(context, NANO, "train") as fleet:
        assert fleet is context.fleet
        trainee = Trainee(fleet, NANO)
        follow(fleet, trainee.model, NANO)  # nothing is to be done
        assert not (context.run_dir / "handed-over").exists()


@pytest.mark.skipif(find_spec("ray") is not None, reason="Ray is installed")
def test_workers_without_ray_are_refused_with_how_to_install_it(desk: ModuleType, tmp_path: Path) -> None:
    with (
        desk.opened(tmp_path, desk.config(rollouts={"place": "ray"})) as context,
        pytest.raises(ClusterError, match=r"need Ray, which is not installed: pip install 'upturn\[ray\]'"),
        sampling(context, NANO, "train"),
    ):
        raise AssertionError("nobody samples")


def test_an_engine_that_does_not_answer_is_named_with_what_to_do(
    desk: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before any attempt: weights are handed over first."""
    monkeypatch.setattr("upturn.models.remote.RemoteSettings", partial(RemoteSettings, retries=0))
    engine = {"place": "engine", "url": NOBODY, "folder": str(tmp_path / "handed")}
    with (
        desk.opened(tmp_path / "run", desk.config(environment=SHORT, rollouts=engine)) as context,
        sampling(context, NANO, "train") as fleet,
    ):
        assert isinstance(fleet, RemoteFleet)
        assert fleet.kit is context.kit and fleet.limits == context.fleet.limits
        trainee = Trainee(fleet, NANO)
        follow(fleet, trainee.model, NANO)
        version = trainee.serve_as(trainee.version)
        with pytest.raises(ModelError, match=rf"{NOBODY}/update_weights_from_disk failed .* correct its URL"):
            fleet.attempt([(version, context.next_tasks(1)[0], 0)], Purpose("x", 0, temperature=1.0))
        assert not (context.run_dir / "handed-over").exists()
    assert (tmp_path / "handed" / "run" / "train").is_dir()

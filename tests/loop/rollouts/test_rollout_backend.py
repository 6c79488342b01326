"""The configured runtime for rollouts, and checks of its availability."""

from functools import partial
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from benchmarks.errands import MODEL
from upturn.agents import RaySettings
from upturn.config import AgentConfig, ApiKeys, LoopConfig, RolloutConfig
from upturn.errors import ClusterError, ModelError
from upturn.loop.agent_runtime import Purpose
from upturn.loop.cycle import run_cycle
from upturn.loop.engine_runtime import EngineRuntime
from upturn.loop.progress import NoProgress
from upturn.loop.rollouts.policy_worker import PolicyWorker
from upturn.loop.rollouts.ray_rollouts import RayRuntime
from upturn.loop.rollouts.rollout_backend import check_sampler, rollout_runtime
from upturn.loop.run.context import open_run, version_of
from upturn.loop.trainers.train_command import run_training
from upturn.models.remote import RemoteSettings
from upturn.training.algorithms.grpo import GrpoSettings

NANO = version_of(AgentConfig(name="nano", kind="local_model", model=MODEL))
SHORT = {"max_turns": 1, "max_tokens": 128}
UNUSED_URL = "http://127.0.0.1:9"
"""The discard port, where nothing listens."""


def test_by_default_the_runs_own_runtime_samples(desk: ModuleType, tmp_path: Path) -> None:
    with desk.opened(tmp_path, desk.config()) as context, rollout_runtime(context, NANO, "train") as runtime:
        assert runtime is context.runtime
        PolicyWorker(runtime, NANO)
        assert not (context.run_dir / "handed-over").exists()


@pytest.mark.skipif(find_spec("ray") is not None, reason="Ray is installed")
def test_workers_without_ray_are_refused_with_how_to_install_it(desk: ModuleType, tmp_path: Path) -> None:
    with (
        desk.opened(tmp_path, desk.config(rollouts={"place": "ray"})) as context,
        pytest.raises(ClusterError, match=r"need Ray, which is not installed: pip install 'upturn\[ray\]'"),
        rollout_runtime(context, NANO, "train"),
    ):
        pytest.fail("no rollout must start")


def test_a_remote_sampler_is_checked_before_any_evaluation_and_before_serving(
    desk: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("upturn.models.RemoteSettings", partial(RemoteSettings, retries=0))
    engine = RolloutConfig(place="engine", url=UNUSED_URL, timeout_seconds=1.0)
    grpo = GrpoSettings(iterations=1, evaluate_every=1)
    plain = desk.config(("solver",), environment=SHORT, tasks={"count": 4})
    nano = AgentConfig(name="nano", kind="local_model", model=MODEL)
    config = plain.with_sections(grpo, loop=LoopConfig(), agents=(nano,), rollouts=engine)
    with desk.opened(tmp_path / "run", config) as context:
        with pytest.raises(ModelError, match=rf"{UNUSED_URL}/v1/models failed .* correct its URL"):
            run_training(context, "grpo")
        with pytest.raises(ModelError, match=rf"{UNUSED_URL}/v1/models failed"):
            run_cycle(context, 1)
        assert [step.name for step in context.journal.progress().steps] == ["begin"]
        context.journal.json_step("cycle-1/grpo", lambda: None)
        monkeypatch.setattr("upturn.loop.cycle.serve", lambda *_: None)
        assert "not met" in run_cycle(context, 1).summary, "a finished step needs no sampler"


@pytest.mark.parametrize("address", [None, "127.0.0.1:9"])
def test_the_check_of_a_cluster_starts_none(
    desk: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, address: str | None
) -> None:
    """Ray is imported, and an address where nothing listens is an error."""
    monkeypatch.setattr("upturn.agents.ray_workers.import_module", lambda name: name)
    rollouts = {"place": "ray"} | ({} if address is None else {"address": address})
    with desk.opened(tmp_path, desk.config(rollouts=rollouts)) as context:
        if address is None:
            check_sampler(context)
        else:
            with pytest.raises(ClusterError, match=f"there is no Ray cluster at '{address}'"):
                check_sampler(context)


def test_ray_workers_have_the_configured_settings(
    desk: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class NoWorkers:
        def __init__(self, _factory: object, settings: RaySettings) -> None:
            assert settings == RaySettings(3, "127.0.0.1:9", gpus_per_worker=0.5)

        def __enter__(self) -> "NoWorkers":
            return self

        def __exit__(self, *_: object) -> None: ...

    monkeypatch.setattr("upturn.agents.RayWorkerPool", NoWorkers)
    rollouts = {"place": "ray", "workers": 3, "address": "127.0.0.1:9", "gpus_per_worker": 0.5}
    config = desk.config(rollouts=rollouts)
    with desk.opened(tmp_path, config) as context, rollout_runtime(context, NANO, "train") as runtime:
        assert isinstance(runtime, RayRuntime)


def test_the_engine_has_the_configured_settings(
    desk: ModuleType, tmp_path: Path, engine_server: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    created: list[RemoteSettings] = []

    def create(*args: Any, **kwargs: Any) -> RemoteSettings:
        created.append(RemoteSettings(*args, **kwargs))
        return created[-1]

    monkeypatch.setattr("upturn.models.RemoteSettings", create)
    server = engine_server.Engine(None, "w1")
    with engine_server.serving(server):
        rollouts = {
            "place": "engine", "url": server.url, "api_key_env": "ITS_KEY", "timeout_seconds": 7.0,
            "max_length": 99, "logprobs": "raw"
        }  # fmt: skip
        config = desk.config(environment=SHORT, rollouts=rollouts)
        with open_run(config, tmp_path, "toy", NoProgress(), api_keys=ApiKeys({"ITS_KEY": "secret"})) as context:
            check_sampler(context)
            with rollout_runtime(context, NANO, "train") as runtime:
                assert isinstance(runtime, EngineRuntime)
    assert created == [
        RemoteSettings(server.url, "sglang", max_length=99, timeout_seconds=7.0, logprobs="raw", form="checkpoint")
    ]
    ((path, headers, _),) = server.requests
    assert (path, headers["authorization"]) == ("/v1/models", "Bearer secret")


def test_an_unavailable_engine_is_reported_with_the_remedy(
    desk: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before any rollout: weights are handed over first."""
    monkeypatch.setattr("upturn.models.RemoteSettings", partial(RemoteSettings, retries=0))
    engine = {"place": "engine", "url": UNUSED_URL, "folder": str(tmp_path / "handed")}
    with (
        desk.opened(tmp_path / "run", desk.config(environment=SHORT, rollouts=engine)) as context,
        rollout_runtime(context, NANO, "train") as runtime,
    ):
        assert isinstance(runtime, EngineRuntime)
        assert runtime.kit is context.kit and runtime.limits == context.runtime.limits
        worker = PolicyWorker(runtime, NANO)
        version = worker.serve_as(worker.version)
        with pytest.raises(ModelError, match=rf"{UNUSED_URL}/update_weights_from_disk failed .* correct its URL"):
            runtime.rollout([(version, context.next_tasks(1)[0], 0)], Purpose("x", 0, temperature=1.0))
        assert not (context.run_dir / "handed-over").exists()
    assert not list((tmp_path / "handed").rglob("*.safetensors")), "removed when the run is closed"

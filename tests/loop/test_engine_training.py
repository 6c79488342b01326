"""Runs of a model that the local engine refuses: the engine at a URL samples training and all evaluations."""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import ModuleType
from typing import Any

import httpx2
import pytest
import torch
from safetensors.torch import load_file

from benchmarks.errands import MODEL
from upturn.agents import Attempt, Job, Setting, WorkItem, build, run_rollouts
from upturn.config import (
    DEFAULT_CONTEXT_TOKENS,
    AdapterSettings,
    AgentConfig,
    EnvironmentConfig,
    LoopConfig,
    OptimiserSettings,
    RolloutConfig,
)
from upturn.environments import tools_of
from upturn.errors import ModelError
from upturn.loop.agent_runtime import Purpose
from upturn.loop.cycle import serve
from upturn.loop.engine_runtime import EngineHost
from upturn.loop.evaluation.evaluate import evaluate_version
from upturn.loop.rollouts import PolicyWorkerFactory
from upturn.loop.trainers.candidate import training_folder
from upturn.loop.trainers.train_command import run_training
from upturn.models import load_local, model_folder
from upturn.models.engine import LocalEngine, weights_hash
from upturn.models.remote import RemoteEngine, RemoteSettings
from upturn.records import Action, Trajectory
from upturn.training import PartialSettings
from upturn.training.algorithms.grpo import GrpoSettings
from upturn.training.distributed.weights import restore_weights, weight_tensors
from upturn.training.runs.curve import read_curve
from upturn.training.runs.run_folder import CURVE_FILE

_PAUSES = {
    "sglang": ("/pause_generation", "/continue_generation"),
    "vllm": ("/pause?mode=abort", "/resume"),
}
NANO = AgentConfig(name="nano", kind="local_model", model=MODEL)
GRPO = GrpoSettings(
    iterations=2,
    tasks_per_iteration=2,
    group_size=2,
    evaluate_every=1,
    optimiser=OptimiserSettings(learning_rate=1e-3),
    minibatches=1,
    keep="final",
)


@dataclass
class Served:
    """Nano behind an engine server."""

    server: Any
    loaded: list[str] = field(default_factory=list)
    """Hashes of the weights, in order."""
    folders: list[Path] = field(default_factory=list)
    types: set[torch.dtype] = field(default_factory=set)


@pytest.fixture
def served(engine_server: ModuleType, monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    """The engine; afterwards, every further local engine is refused."""
    model = load_local(MODEL).model
    local = LocalEngine(model, max_length=DEFAULT_CONTEXT_TOKENS)

    def load(_: str, folder: str) -> None:
        if (Path(folder) / "model.safetensors").is_file():
            result.types |= {tensor.dtype for tensor in load_file(Path(folder) / "model.safetensors").values()}
        restore_weights(model, weight_tensors(load_local(folder).model))
        local.refresh()
        result.folders.append(Path(folder))
        result.loaded.append(local.version)

    def refuse(*_: object, **__: object) -> None:
        raise ModelError("sliding windows are not supported by the local engine")

    with engine_server.serving(
        engine_server.Engine(local, "default", load=load, root=str(model_folder(MODEL)))
    ) as server:
        result = Served(server)
        monkeypatch.setattr(LocalEngine, "__init__", refuse)
        yield result


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rewards differ within every group; model selection has few tasks, and no page is drawn, for speed."""
    monkeypatch.setattr(
        "upturn.loop.trainers.rl_training.configured_reward",
        lambda _: lambda evaluation: float(int(evaluation.trajectory_id, 16) % 7),
    )
    monkeypatch.setattr("upturn.loop.evaluation.model_selection.SELECTION_TASKS", 2)
    monkeypatch.setattr("upturn.loop.trainers.rl_training.write_training_report", lambda _: None)


@contextmanager
def opened(desk: ModuleType, tmp_path: Path, grpo: GrpoSettings = GRPO, **sections: Any) -> Iterator[Any]:
    plain = desk.config(
        ("solver",), environment={"max_turns": 1, "max_tokens": 64}, tasks={"count": 4, "heldout_count": 2}
    )
    with desk.opened(
        tmp_path / "run", plain.with_sections(grpo, loop=LoopConfig(), **{"agents": (NANO,), **sections})
    ) as context:
        yield context


@pytest.mark.parametrize(
    ("dialect", "staleness"),
    [
        ("sglang", 0),
        pytest.param("vllm", 0, marks=pytest.mark.slow),
        pytest.param("sglang", 1, marks=pytest.mark.slow),
        pytest.param("vllm", 1, marks=pytest.mark.slow),
    ],
)
def test_a_model_that_the_local_engine_refuses_is_trained_and_evaluated(
    desk: ModuleType, served: Served, tmp_path: Path, dialect: str, staleness: int
) -> None:
    rollouts = RolloutConfig(place="engine", url=served.server.url, dialect=dialect)  # type: ignore[arg-type]
    grpo = replace(GRPO, staleness=staleness)
    with opened(desk, tmp_path, grpo, rollouts=rollouts) as context:
        result = run_training(context, "grpo")
        stored = list(context.pool.trajectories(tenant="default"))
        assert [folder.name for folder in served.folders if folder.is_dir()] == [served.loaded[-1]]
    base, trained = weights_hash(load_local(MODEL).model), result.candidate.weights_hash
    assert base != trained and served.loaded[0] == base and served.loaded[-1] == trained
    assert {item.error for item in stored} == {""} and {base, trained} <= {item.model_version for item in stored}
    marks = {mark.trajectory_id for mark in (*result.before.marks, *result.after.marks)}
    versions = {item.id: item.model_version for item in stored if item.id in marks}
    assert [versions[mark.trajectory_id] for mark in result.before.marks] == [base] * 2
    assert [versions[mark.trajectory_id] for mark in result.after.marks] == [trained] * 2
    assert not any(folder.exists() for folder in served.folders), "the run is closed"


@pytest.mark.slow
def test_whole_models_are_handed_over_in_the_configured_type(
    desk: ModuleType, served: Served, tmp_path: Path
) -> None:
    rollouts = RolloutConfig(place="engine", url=served.server.url, weights="bfloat16")
    grpo = replace(GRPO, iterations=1, evaluate_every=None)
    with opened(desk, tmp_path, grpo, rollouts=rollouts) as context:
        result = run_training(context, "grpo")
        versions = {item.model_version for item in context.pool.trajectories(tenant="default")}
    assert served.types == {torch.bfloat16}
    assert {weights_hash(load_local(MODEL).model), result.candidate.weights_hash} <= versions
    assert result.candidate.weights_hash not in served.loaded, "stamped with the trained weights, not the rounded"


@pytest.mark.filterwarnings("ignore::FutureWarning")  # peft calls a renamed function of transformers
def test_adapters_of_vllm_serve_the_base_and_the_trained_version(
    desk: ModuleType, served: Served, tmp_path: Path
) -> None:
    """The base has no adapter: it is sampled under the engine's own name."""
    pytest.importorskip("peft", reason="the extra lora is not installed")
    rollouts = RolloutConfig(place="engine", url=served.server.url, dialect="vllm")
    lora = AdapterSettings(rank=2, targets=("q_proj",))
    with opened(desk, tmp_path, rollouts=rollouts, lora=lora) as context:
        result = run_training(context, "grpo")
        errors = {item.error for item in context.pool.trajectories(tenant="default")}
        loads = len(served.loaded)
        for version in (result.candidate, result.incumbent, result.candidate):
            evaluated = evaluate_version(
                context.runtime, version, context.next_tasks(1), Purpose(f"again {version.id}", 0, 1.0), pool=None
            )
            assert not any(mark.is_missing for mark in evaluated.marks)
        assert len(served.loaded) == loads, "the adapter is still loaded after the base was sampled"
    names = [body["model"] for path, _, body in served.server.requests if path == "/v1/completions"]
    assert errors == {""} and names[0] == "default" and names[-1] == result.candidate.weights_hash
    assert served.server.adapters == set(), "unloaded when the run is closed"


@pytest.mark.parametrize("dialect", ["sglang", pytest.param("vllm", marks=pytest.mark.slow)])
def test_unfinished_trajectories_continue_with_newer_weights(
    desk: ModuleType, served: Served, tmp_path: Path, dialect: str
) -> None:
    """The engine ends its requests early, and tokens are scored with the weights that wrote them. How many requests
    are still open then depends on the time."""
    rollouts = RolloutConfig(place="engine", url=served.server.url, dialect=dialect)  # type: ignore[arg-type]
    grpo = replace(GRPO, iterations=3, evaluate_every=None, partial=PartialSettings(extra_tasks=2))
    with opened(desk, tmp_path, grpo, rollouts=rollouts) as context:
        run_training(context, "grpo")
        stored = list(context.pool.trajectories(tenant="default"))
        curve = read_curve(training_folder(context, "grpo") / CURVE_FILE)
    paths = [path for path, _, _ in served.server.requests]
    pause, resume = _PAUSES[dialect]
    assert paths.count(pause) == paths.count(resume) == 3
    assert {item.error for item in stored} == {""}
    assert all(0 <= (point.metrics["partial_open"] or 0.0) <= 2 for point in curve) and len(curve) == 3


async def ask(attempt: Attempt) -> Action:
    """A program: two calls, of which the second goes on with the first."""
    messages: list[Any] = [{"role": "user", "content": attempt.task}]
    async with httpx2.AsyncClient(headers={"x-api-key": attempt.api_key}) as client:
        for _ in range(2):
            body = {"model": "m", "messages": messages, "max_tokens": 8}
            answer = (await client.post(f"{attempt.base_url}/chat/completions", json=body)).json()
            messages += [answer["choices"][0]["message"], {"role": "user", "content": "Again."}]
    return Action("user", "answer", {"text": messages[-2]["content"]})


def test_a_program_is_trained_with_the_engines_tokens(desk: ModuleType, served: Served, tmp_path: Path) -> None:
    program = AgentConfig(name="asker", kind="program", import_path=f"{__name__}:ask", model=MODEL)
    rollouts = RolloutConfig(place="engine", url=served.server.url)
    grpo = replace(GRPO, iterations=1, evaluate_every=None)
    calls = EnvironmentConfig(name="toy_desk:kit", max_turns=2, max_tokens=128)
    with opened(desk, tmp_path, grpo, rollouts=rollouts, agents=(program,), environment=calls) as context:
        result = run_training(context, "grpo")
        stored = list(context.pool.trajectories(tenant="default"))
    base = weights_hash(load_local(MODEL).model)
    assert {item.error for item in stored} == {""} and result.candidate.weights_hash != base
    assert {base, result.candidate.weights_hash} == {item.model_version for item in stored}
    for item in stored:
        (row,) = item.rows
        assert len(row.spans) == 2 and len(row.logprobs) == sum(span.stop - span.start for span in row.spans)


def test_a_version_that_is_no_adapter_of_the_served_base_is_named(served: Served, tmp_path: Path) -> None:
    served.server.root = "other/base"
    remote = RemoteEngine(RemoteSettings(served.server.url), "default")
    with pytest.raises(ModelError, match=f"the engine serves 'other/base'.*'{MODEL}' is neither this model"):
        EngineHost(remote, tmp_path).push_version(load_local(MODEL), "w1")


@pytest.mark.slow
def test_ray_workers_run_training_and_evaluations(
    desk: ModuleType, served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The only engine is the worker's, which was built before all others are refused."""
    loaded: list[str] = []

    class Worker:
        """A pool of one worker, in this process, with the served model."""

        size = 1

        def __init__(self, factory: PolicyWorkerFactory, _: object) -> None:
            self.limits = factory.limits
            renderer = load_local(MODEL).renderer(tools_of(desk.kit()))
            self.agent = build(factory.version, limits=factory.limits, renderer=renderer)

        def __enter__(self) -> "Worker":
            return self

        def __exit__(self, *_: object) -> None: ...

        def load_weights(self, folder: str, version: str) -> None:
            served.server.load(version, folder)
            assert served.loaded[-1] == version
            loaded.append(version)

        def run(self, parts: Sequence[Sequence[WorkItem]]) -> Iterator[Trajectory]:
            jobs = [
                Job(
                    work.request,
                    Setting(
                        work.key,
                        self.agent,
                        work.agent_version,
                        served.server.model,
                        self.limits,
                        work.seed,
                        work.temperature,
                    ),
                )
                for work in parts[0]
            ]
            yield from asyncio.run(run_rollouts(jobs, desk.kit().environment))

    monkeypatch.setattr("upturn.agents.RayWorkerPool", Worker)
    monkeypatch.setattr("upturn.agents.check_cluster", lambda _: None)
    with opened(desk, tmp_path, rollouts=RolloutConfig(place="ray")) as context:
        result = run_training(context, "grpo")
        errors = {item.error for item in context.pool.trajectories(tenant="default")}
    assert errors == {""} and loaded[0] == weights_hash(load_local(MODEL).model)
    assert loaded[-1] == result.candidate.weights_hash != loaded[0]
    assert not list((tmp_path / "run" / "handed-over").rglob("*.safetensors"))


def test_tasks_are_served_by_the_engine_too(desk: ModuleType, served: Served, tmp_path: Path) -> None:
    with opened(desk, tmp_path, rollouts=RolloutConfig(place="engine", url=served.server.url)) as context:
        serve(context, "serve", 4)
        stored = list(context.pool.trajectories(tenant="default"))
    assert len(stored) == 4 and {item.error for item in stored} == {""}
    assert {item.model_version for item in stored} == {weights_hash(load_local(MODEL).model)}

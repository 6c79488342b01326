"""Inputs and results of measurements of the update and of sampling; the sizes of updates."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

from benchmarks.agreement import Agreement, compare
from benchmarks.comparison import Bar
from benchmarks.implementations import UpdateTask
from benchmarks.worker import Response, Worker
from benchmarks.workloads import (
    ModelSpec,
    TreeCount,
    Workload,
    WorkloadSettings,
    count_tree,
    make_workload,
    training_rows,
)
from upturn.errors import UnknownNameError
from upturn.records import JsonValue, Result

DENSE = "benchmarks.implementations.dense:serve_dense"
LIBRARY = "benchmarks.implementations.library_update:serve_update"

ORDINARY_SEED = 28
"""The first seed with an ordinary group: padded, logical, distinct and written tokens, and padded over distinct
ones, are all within 2 % of their medians over the seeds 0 to 200. Seed 0 has 1.89 padded tokens per distinct one,
the median is 2.19."""
ORDINARY_LONG_SEED = 35
"""The same for prompts of 4,000 tokens of the large vocabulary."""
QWEN2_HALF_BILLION = ModelSpec(
    width=896, layers=24, vocabulary=151_936, positions=8_192, key_value_heads=2, feed_forward=4_864
)
"""The shape of Qwen2-0.5B (its ``config.json``), with a shorter context: 494 million parameters."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """Sizes of models and rollouts."""

    workload: WorkloadSettings = field(default_factory=lambda: WorkloadSettings(seed=ORDINARY_SEED))
    model: ModelSpec = field(default_factory=ModelSpec)
    vocabularies: tuple[int, int] = (4_096, 32_000)
    unshared_prompt: int = 64
    """Prompt tokens of the measurement without shared tokens, which has two rollouts."""
    wide_model: ModelSpec = field(default_factory=lambda: ModelSpec(width=512, layers=4))
    """The model of the utilisation measurement."""
    wide_group_size: int = 4
    group_sizes: tuple[int, ...] = (2, 4, 8, 16)
    gpu_workload: WorkloadSettings = field(
        default_factory=lambda: WorkloadSettings(prompt_tokens=4_000, vocabulary=151_936, seed=ORDINARY_LONG_SEED)
    )
    gpu_model: ModelSpec = QWEN2_HALF_BILLION


_TINY = WorkloadSettings(
    prompt_tokens=48, group_size=4, turns=(2, 3), action_tokens=(4, 8), observation_tokens=(8, 16), vocabulary=256
)
QUICK = Sizes(
    workload=_TINY,
    model=ModelSpec(width=64, layers=2, vocabulary=256),
    vocabularies=(256, 512),
    unshared_prompt=8,
    wide_model=ModelSpec(width=128, layers=2, vocabulary=256),
    wide_group_size=2,
    group_sizes=(2, 4),
    gpu_workload=_TINY,
    gpu_model=ModelSpec(width=128, layers=2, key_value_heads=1, feed_forward=320),
)
"""A smoke test of a minute; its figures are not meaningful."""


@dataclass(frozen=True, slots=True)
class Bench:
    """Input of every measurement."""

    folder: Path
    """For files that the workers of an update share; temporary."""
    threads: int
    """Of each worker."""
    repetitions: int = 5
    sizes: Sizes = field(default_factory=Sizes)
    has_bars: bool = True
    """False = figures are only reported, because sizes are too small for bars."""
    log: Callable[[str], None] = lambda _: None
    """Receives one line about each stage."""
    recorded: "dict[tuple[ModelSpec, WorkloadSettings, str], RecordedRollouts]" = field(default_factory=dict)
    """Rollouts recorded so far; measurements of the same rollouts share them."""

    def bar(self, limit: float, *, is_upper: bool = False) -> Bar | None:
        """The bar, or None without bars."""
        return Bar(limit, is_upper) if self.has_bars else None


class Measurement(NamedTuple):
    """Result of a measurement."""

    results: tuple[Result, ...]
    details: Mapping[str, JsonValue] = {}
    """Under the measurement's name in the printed object."""


def check_names(names: Iterable[str], known: Iterable[str]) -> None:
    """Raises UnknownNameError for the first name that is not known."""
    for name in names:
        if name not in known:
            raise UnknownNameError(f"unknown measurement {name!r}; known: {', '.join(known)}")


def combine(measurements: Mapping[str, Measurement]) -> tuple[list[Result], dict[str, JsonValue]]:
    """All results, and the details by name."""
    results = [result for measurement in measurements.values() for result in measurement.results]
    return results, {name: dict(measurement.details) for name, measurement in measurements.items()}


@dataclass(frozen=True, slots=True, eq=False)
class RecordedRollouts:
    """Rollouts with the reference's loss and gradient: the dense path's."""

    task: UpdateTask
    """Without a gradient path."""
    workload: Workload
    loss: float
    gradient: Path

    def settings(self, name: str, **options: JsonValue) -> dict[str, JsonValue]:
        """Settings of an implementation that writes its gradient under ``name``; ``options`` are added."""
        return replace(self.task, gradient=self.gradient_path(name)).settings() | options

    def gradient_path(self, name: str) -> Path:
        """The file of an implementation's gradient."""
        return self.gradient.with_name(f"{name}.safetensors")

    def agreement(self, name: str, prepared: Response) -> Agreement:
        """Distance of an implementation from the reference."""
        return compare(
            prepared.number("loss"),
            self.gradient_path(name),
            reference_loss=self.loss,
            reference_gradient=self.gradient,
        )

    def relative_to(self, name: str, prepared: Response) -> "RecordedRollouts":
        """The same rollouts with another implementation as the reference."""
        return replace(self, loss=prepared.number("loss"), gradient=self.gradient_path(name))

    def count_tree(self) -> TreeCount:
        """Size of the prefix tree of the rollouts."""
        return count_tree(training_rows(self.workload, self.task.load_model_logprobs()))

    def describe(self) -> dict[str, JsonValue]:
        """Properties of rollouts and model for the printed object."""
        return {
            "prompt_tokens": self.workload.settings.prompt_tokens,
            "attempts": len(self.workload.rollouts),
            "logical_tokens": self.workload.logical_tokens,
            "padded_tokens": self.workload.padded_tokens,
            "written_tokens": self.workload.written_tokens,
            "vocabulary": self.workload.settings.vocabulary,
            "width": self.task.model.width,
            "layers": self.task.model.layers,
        }


def record_rollouts(
    bench: Bench, model: ModelSpec, settings: WorkloadSettings, *, device: str = "cpu"
) -> RecordedRollouts:
    """Rollouts for a model, which gets their vocabulary, with the dense path's gradient in float32."""
    model = replace(model, vocabulary=settings.vocabulary)
    key = (model, settings, device)
    if key not in bench.recorded:
        folder = bench.folder / f"rollouts-{len(bench.recorded)}"
        folder.mkdir()
        workload = make_workload(settings)
        task = UpdateTask(model, settings, folder / "logprobs.npy", bench.threads, device=device)
        gradient = folder / "dense.safetensors"
        bench.log(
            f"dense path: {settings.group_size} rollouts one by one, vocabulary {settings.vocabulary:,}, "
            f"width {model.width}"
        )
        with Worker(DENSE, replace(task, gradient=gradient).settings(), bench.threads) as dense:
            bench.recorded[key] = RecordedRollouts(task, workload, dense.prepared.number("loss"), gradient)
    return bench.recorded[key]

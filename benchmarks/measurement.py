"""What a measurement is given and what it gives back; the sizes at which updates are measured."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

from benchmarks.agreement import Agreement, compare
from benchmarks.comparison import Bar
from benchmarks.implementations import UpdateTask
from benchmarks.worker import Made, Worker
from benchmarks.workloads import Subject, Workload, WorkloadSettings, make_workload, save_workload
from upturn.records import JsonValue, Result

DENSE_SIDE = "benchmarks.implementations.dense:dense_side"
LIBRARY_SIDE = "benchmarks.implementations.library_update:library_side"


ORDINARY_SEED = 28
"""The first whose group is ordinary: padded, logical, distinct and written tokens, and padded over distinct ones,
all lie within 2 % of their medians over the seeds 0 to 200. Seed 0 has 1.89 padded tokens a distinct one, the
median is 2.19."""
ORDINARY_LONG_SEED = 35
"""The same for prompts of 4,000 tokens of the large vocabulary."""
QWEN2_HALF_BILLION = Subject(
    width=896, layers=24, vocabulary=151_936, positions=8_192, key_value_heads=2, feed_forward=4_864
)
"""The shape of Qwen2-0.5B (its ``config.json``), with a shorter context: 494 million parameters."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """Of models and rollouts."""

    workload: WorkloadSettings = field(default_factory=lambda: WorkloadSettings(seed=ORDINARY_SEED))
    subject: Subject = field(default_factory=Subject)
    vocabularies: tuple[int, int] = (4_096, 32_000)
    unshared_prompt: int = 64
    """Prompt tokens of the case in which there is nothing to share, with two attempts."""
    wide: Subject = field(default_factory=lambda: Subject(width=512, layers=4))
    """The model whose arithmetic is counted."""
    wide_attempts: int = 4
    groups: tuple[int, ...] = (2, 4, 8, 16)
    gpu_workload: WorkloadSettings = field(
        default_factory=lambda: WorkloadSettings(prompt_tokens=4_000, vocabulary=151_936, seed=ORDINARY_LONG_SEED)
    )
    gpu: Subject = QWEN2_HALF_BILLION


_TINY = WorkloadSettings(
    prompt_tokens=48, attempts=4, turns=(2, 3), action_tokens=(4, 8), observation_tokens=(8, 16), vocabulary=256
)
QUICK = Sizes(
    workload=_TINY,
    subject=Subject(width=64, layers=2, vocabulary=256),
    vocabularies=(256, 512),
    unshared_prompt=8,
    wide=Subject(width=128, layers=2, vocabulary=256),
    wide_attempts=2,
    groups=(2, 4),
    gpu_workload=_TINY,
    gpu=Subject(width=128, layers=2, key_value_heads=1, feed_forward=320),
)
"""So small that all of it takes a minute: shows that everything works, measures nothing."""


@dataclass(frozen=True, slots=True)
class Bench:
    """What every measurement is given."""

    folder: Path
    """For files that sides share; gone afterwards."""
    threads: int
    repetitions: int = 5
    sizes: Sizes = field(default_factory=Sizes)
    has_bars: bool = True
    """False = figures are only shown: they are of sizes that say nothing."""
    say: Callable[[str], None] = lambda _: None
    """Takes one line for people: what is happening now."""
    recorded: "dict[tuple[Subject, WorkloadSettings, str], Recorded]" = field(default_factory=dict)
    """What was recorded so far: measurements of the same rollouts share them."""

    def bar(self, limit: float, *, is_upper: bool = False) -> Bar | None:
        """The bar, where bars count."""
        return Bar(limit, is_upper) if self.has_bars else None


class Measured(NamedTuple):
    """What came out."""

    results: tuple[Result, ...]
    details: Mapping[str, JsonValue] = {}
    """Under the measurement's name in the printed object."""


@dataclass(frozen=True, slots=True, eq=False)
class Recorded:
    """Rollouts on disk, with what the dense path made of them."""

    task: UpdateTask
    """Without a place for a gradient."""
    workload: Workload
    loss: float
    gradient: Path

    def settings(self, name: str, **own: JsonValue) -> dict[str, JsonValue]:
        """For a side that leaves its gradient under ``name``; ``own`` are its further settings."""
        return replace(self.task, gradient=self.gradient_of(name)).settings() | own

    def gradient_of(self, name: str) -> Path:
        """Where that side leaves it."""
        return self.gradient.with_name(f"{name}.safetensors")

    def agreement(self, name: str, prepared: Made) -> Agreement:
        """How far that side is from the dense path."""
        return compare(
            prepared.number("loss"),
            self.gradient_of(name),
            reference_loss=self.loss,
            reference_gradient=self.gradient,
        )

    def between(self, name: str, prepared: Made) -> "Recorded":
        """The same with that side's loss and gradient in the dense path's place."""
        return replace(self, loss=prepared.number("loss"), gradient=self.gradient_of(name))

    def described(self) -> dict[str, JsonValue]:
        """What the rollouts are like, for the printed object."""
        return {
            "prompt_tokens": self.workload.settings.prompt_tokens,
            "attempts": len(self.workload.attempts),
            "logical_tokens": self.workload.logical_tokens,
            "padded_tokens": self.workload.padded_tokens,
            "written_tokens": self.workload.written_tokens,
            "vocabulary": self.workload.settings.vocabulary,
            "width": self.task.subject.width,
            "layers": self.task.subject.layers,
        }


def record(bench: Bench, subject: Subject, settings: WorkloadSettings, *, device: str = "cpu") -> Recorded:
    """Rollouts for the subject, whose vocabulary becomes theirs, with the dense path's gradient (float32)."""
    chosen = replace(subject, vocabulary=settings.vocabulary)
    key = (chosen, settings, device)
    if key not in bench.recorded:
        bench.recorded[key] = _record(bench, chosen, settings, device=device)
    return bench.recorded[key]


def _record(bench: Bench, chosen: Subject, settings: WorkloadSettings, *, device: str) -> Recorded:
    folder = bench.folder / f"rollouts-{len(bench.recorded)}"
    folder.mkdir()
    workload = make_workload(settings)
    save_workload(workload, folder / "rollouts.npz")
    task = UpdateTask(chosen, folder / "rollouts.npz", folder / "own_logprobs.npy", bench.threads, device=device)
    gradient = folder / "dense.safetensors"
    bench.say(
        f"the dense path, rollout by rollout: {settings.attempts} attempts, vocabulary {settings.vocabulary:,}, "
        f"width {chosen.width}"
    )
    with Worker(DENSE_SIDE, replace(task, gradient=gradient).settings(), bench.threads) as dense:
        return Recorded(task, workload, dense.prepared.number("loss"), gradient)

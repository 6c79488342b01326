"""All parts of ``python -m benchmarks algorithms``; stored measurements are not repeated.

A part with a missing requirement is reported as not measured, or refused where it was requested by name.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias, assert_never

from benchmarks.algorithms.code_size import measure_code_size
from benchmarks.algorithms.errands_comparison import (
    ErrandsRuns,
    ErrandsTrainingSettings,
    errands_details,
    errands_results,
    measure_errands,
    run_names,
)
from benchmarks.algorithms.ray_workers import WorkersSettings, measure_workers, require_ray
from benchmarks.algorithms.rft_comparison import REWARDS, FewExamplesSettings, RftResults, measure_rft
from benchmarks.algorithms.sharding import QUICK as QUICK_SHARDING
from benchmarks.algorithms.sharding import ShardedWork, measure_processes
from benchmarks.algorithms.toy_comparison import QUICK as QUICK_TOYS
from benchmarks.algorithms.toy_comparison import ToySettings, measure_toys, toy_cases, toy_details, toy_results
from benchmarks.algorithms.trl_losses import measure_losses
from benchmarks.credit import ErrandsSettings
from benchmarks.result_cache import ResultCache, digest
from benchmarks.trl_baseline import require_trl
from upturn.errors import MeasurementError
from upturn.records import JsonValue, Result
from upturn.training.optimisation import torch_threads

Part: TypeAlias = Literal["toys", "losses", "errands", "rft", "processes", "workers", "size"]
PARTS: tuple[Part, ...] = ("toys", "losses", "errands", "rft", "processes", "workers", "size")


@dataclass(frozen=True, slots=True)
class AlgorithmsBench:
    """Parts and their settings."""

    folder: Path
    """Folder of stored measurements."""
    parts: tuple[Part, ...] = PARTS
    toys: ToySettings = field(default_factory=ToySettings)
    toys_seeds: int = 5
    errands: ErrandsTrainingSettings = field(default_factory=ErrandsTrainingSettings)
    errands_seeds: int = 3
    rft: FewExamplesSettings = field(default_factory=FewExamplesSettings)
    rft_seeds: int = 3
    processes: ShardedWork = field(default_factory=ShardedWork)
    workers: WorkersSettings = field(default_factory=WorkersSettings)
    threads: int = 1
    """Threads of torch, in errands; toys use one."""
    has_bars: bool = True
    """False = figures are only reported, because sizes are too small for bars."""

    @property
    def steps(self) -> int:
        """Largest number of ``on_done`` calls of ``measure``; parts with a missing requirement are skipped."""
        steps: dict[Part, int] = {
            "toys": len(toy_cases(self.toys)) * self.toys_seeds,
            "losses": 1,
            "errands": len(run_names()) * self.errands_seeds,
            "rft": len(self.rft.examples) * len(REWARDS) * self.rft_seeds,
            "processes": 1,
            "workers": self.workers.repetitions,
            "size": 1,
        }
        return sum(steps[part] for part in self.parts)

    @property
    def seeds(self) -> dict[str, JsonValue]:
        """Number of seeds by part, of parts that have seeds."""
        seeds = {"toys": self.toys_seeds, "errands": self.errands_seeds, "rft": self.rft_seeds}
        return {part: seeds[part] for part in self.parts if part in seeds}

    def with_seeds(self, seeds: int) -> "AlgorithmsBench":
        """A copy with another number of seeds in every part."""
        return replace(self, toys_seeds=seeds, errands_seeds=seeds, rft_seeds=seeds)


def quick_bench(folder: Path, parts: tuple[Part, ...]) -> AlgorithmsBench:
    """A smoke test of seconds; its figures are not meaningful."""
    setup = ErrandsSettings(
        families=("cell_ask",), demonstrations=4, epochs=1, group_size=5, tasks=1, evaluation_tasks=3, budget=200
    )
    errands = ErrandsTrainingSettings(setup, observation_rounds=1)
    rft = FewExamplesSettings(setup, examples=(2, 3), tasks=2, group_size=2)
    return AlgorithmsBench(
        folder,
        parts,
        toys=QUICK_TOYS,
        toys_seeds=1,
        errands=replace(errands, world_model=replace(errands.world_model, common_ratio=None)),
        errands_seeds=1,
        rft=replace(rft, training=replace(rft.training, iterations=1)),
        rft_seeds=2,
        processes=QUICK_SHARDING,
        workers=WorkersSettings(tasks=2, group_size=2, repetitions=1),
        has_bars=False,
    )


class Measurement(NamedTuple):
    """Results of all parts."""

    results: list[Result]
    details: dict[str, JsonValue]
    runs: ErrandsRuns
    """Training runs in errands; empty = not measured."""
    rft: RftResults | None
    """None = not measured."""


def require(parts: Iterable[Part]) -> None:
    """Raises MeasurementError (exit code 2) when a part has a missing requirement."""
    for part in parts:
        if part == "losses":
            require_trl()
        elif part == "workers":
            require_ray()


def measure(bench: AlgorithmsBench, *, on_done: Callable[[], None] = lambda: None) -> Measurement:
    """Measures the parts in their order; calls ``on_done`` at most ``bench.steps`` times."""
    results: list[Result] = []
    details: dict[str, JsonValue] = {}
    runs: ErrandsRuns = {}
    rft: RftResults | None = None
    for part in bench.parts:
        try:
            require([part])
        except MeasurementError as exc:
            results.append(Result(part, "not measured"))
            details[part] = {"not_measured": str(exc)}
            continue
        rows: list[Result]
        match part:
            case "toys":
                cache = ResultCache(bench.folder / "toys", bench.toys)
                with torch_threads(1):
                    toys = measure_toys(cache, range(bench.toys_seeds), bench.toys, on_done=on_done)
                rows, details[part] = toy_results(toys, has_bars=bench.has_bars), toy_details(toys)
            case "errands":
                runs = _measure_errands(bench, on_done)
                rows, details[part] = errands_results(runs), errands_details(runs)
            case "rft":
                rft = _measure_rft(bench, on_done)
                rows, details[part] = rft.results(), rft.details()
            case "losses":
                rows, details[part] = measure_losses(has_bars=bench.has_bars)
            case "processes":
                rows, details[part] = measure_processes(bench.processes, has_bars=bench.has_bars)
            case "workers":
                rows, details[part] = measure_workers(bench.workers, has_bars=bench.has_bars, on_done=on_done)
            case "size":
                rows, details[part] = measure_code_size(has_bars=bench.has_bars)
            case _:
                assert_never(part)
        results += rows
        if part in {"losses", "processes", "size"}:
            on_done()
    return Measurement(results, details, runs, rft)


def _measure_errands(bench: AlgorithmsBench, on_done: Callable[[], None]) -> ErrandsRuns:
    cache, model = ResultCache(bench.folder / "errands", bench.errands), _model_folder(bench, bench.errands.setup)
    with torch_threads(bench.threads):
        return measure_errands(cache, model, range(bench.errands_seeds), settings=bench.errands, on_done=on_done)


def _measure_rft(bench: AlgorithmsBench, on_done: Callable[[], None]) -> RftResults:
    cache, model = ResultCache(bench.folder / "rft", bench.rft), _model_folder(bench, bench.rft.setup)
    with torch_threads(bench.threads):
        return measure_rft(cache, model, range(bench.rft_seeds), settings=bench.rft, on_done=on_done)


def _model_folder(bench: AlgorithmsBench, setup: ErrandsSettings) -> Path:
    """The folder of the initial model, which parts with equal settings share."""
    return bench.folder / f"model-{digest(setup)}"

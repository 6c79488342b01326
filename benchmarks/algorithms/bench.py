"""All parts of ``python -m benchmarks algorithms``: measured once, then read, and summed up.

A part that needs what is not installed says so in its row, and is refused where it was asked for by name.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias

from benchmarks.algorithms.code_size import measure_size
from benchmarks.algorithms.errands_comparison import (
    Courses,
    CoursesSettings,
    measure_courses,
    names,
)
from benchmarks.algorithms.processes_part import QUICK, measure_processes
from benchmarks.algorithms.ray_workers import WorkersSettings, measure_workers, require_ray
from benchmarks.algorithms.rft_comparison import REWARDS, RftFindings, RftSettings, measure_rft
from benchmarks.algorithms.sharding import ShardedWork
from benchmarks.algorithms.summary import courses_details, courses_results, rft_details
from benchmarks.algorithms.toy_comparison import QUICK as QUICK_TOYS
from benchmarks.algorithms.toy_comparison import (
    ToysSettings,
    measure_toys,
    places,
    toys_details,
    toys_results,
)
from benchmarks.algorithms.trl_losses import measure_losses
from benchmarks.credit import ErrandsSettings
from benchmarks.result_cache import Ledger, digest
from benchmarks.trl_baseline import require_trl
from upturn.errors import MeasurementError
from upturn.records import JsonValue, Result
from upturn.training.optimisation import torch_threads

Part: TypeAlias = Literal["toys", "losses", "errands", "rft", "processes", "workers", "size"]
PARTS: tuple[Part, ...] = ("toys", "losses", "errands", "rft", "processes", "workers", "size")
_NEEDS: dict[Part, Callable[[], None]] = {"losses": require_trl, "workers": require_ray}


@dataclass(frozen=True, slots=True)
class AlgorithmsBench:
    """What is measured."""

    folder: Path
    """Where measurements are kept; what is there is not measured again."""
    parts: tuple[Part, ...] = PARTS
    toys: ToysSettings = field(default_factory=ToysSettings)
    toys_seeds: int = 5
    courses: CoursesSettings = field(default_factory=CoursesSettings)
    courses_seeds: int = 3
    rft: RftSettings = field(default_factory=RftSettings)
    rft_seeds: int = 3
    processes: ShardedWork = field(default_factory=ShardedWork)
    workers: WorkersSettings = field(default_factory=WorkersSettings)
    threads: int = 1
    """Of torch, in errands; toys have one."""
    has_bars: bool = True
    """False = figures are only shown: they are of sizes that say nothing."""

    @property
    def steps(self) -> int:
        """How often ``measure`` reports at most: parts that miss what they need are skipped."""
        steps: dict[Part, int] = {
            "toys": len(places(self.toys)) * self.toys_seeds,
            "losses": 1,
            "errands": len(names()) * self.courses_seeds,
            "rft": len(self.rft.examples) * len(REWARDS) * self.rft_seeds,
            "processes": 1,
            "workers": self.workers.repetitions,
            "size": 1,
        }
        return sum(steps[part] for part in self.parts)

    @property
    def seeds(self) -> dict[str, JsonValue]:
        """Of each part that has some and is measured."""
        found = {"toys": self.toys_seeds, "errands": self.courses_seeds, "rft": self.rft_seeds}
        return {part: found[part] for part in self.parts if part in found}

    def with_seeds(self, seeds: int) -> "AlgorithmsBench":
        """The same with another number of seeds in every part."""
        return replace(self, toys_seeds=seeds, courses_seeds=seeds, rft_seeds=seeds)


def quick_bench(folder: Path, parts: tuple[Part, ...]) -> AlgorithmsBench:
    """So small that all of it takes seconds: shows that everything works, measures nothing."""
    errands = ErrandsSettings(
        families=("cell_ask",), demonstrations=4, epochs=1, attempts=5, tasks=1, examined_tasks=3, budget=200
    )
    courses = CoursesSettings(errands)
    rft = RftSettings(errands, examples=(2, 3), tasks=2, attempts=2)
    return AlgorithmsBench(
        folder,
        parts,
        toys=QUICK_TOYS,
        toys_seeds=1,
        courses=replace(courses, observed_rounds=1, world_model=replace(courses.world_model, common_ratio=None)),
        courses_seeds=1,
        rft=replace(rft, training=replace(rft.training, iterations=1)),
        rft_seeds=2,
        processes=QUICK,
        workers=WorkersSettings(tasks=2, attempts=2, repetitions=1),
        has_bars=False,
    )


class Measured(NamedTuple):
    """What came out."""

    results: list[Result]
    details: dict[str, JsonValue]
    courses: Courses
    """Of errands; empty where that was not measured."""
    rft: RftFindings | None
    """None = not measured."""


def check(bench: AlgorithmsBench) -> None:
    """Raises MeasurementError (exit code 2) when a part misses what it needs."""
    for part in bench.parts:
        if part in _NEEDS:
            _NEEDS[part]()


def measure(bench: AlgorithmsBench, *, on_done: Callable[[], None] = lambda: None) -> Measured:
    """The parts in their order; ``on_done`` after each of the bench's ``steps``."""
    runner = _Runner(bench, on_done)
    for part in bench.parts:
        runner.run(part)
    return Measured(runner.results, runner.details, runner.courses, runner.rft)


class _Runner:
    """Measures parts one by one and collects what comes out."""

    def __init__(self, bench: AlgorithmsBench, on_done: Callable[[], None]) -> None:
        self.results: list[Result] = []
        self.details: dict[str, JsonValue] = {}
        self.courses: Courses = {}
        self.rft: RftFindings | None = None
        self._bench = bench
        self._on_done = on_done

    def run(self, part: Part) -> None:
        """Keeps the part's figures, or that it misses something."""
        try:
            _NEEDS.get(part, lambda: None)()
        except MeasurementError as exc:
            self.results.append(Result(part, "not measured"))
            self.details[part] = {"not_measured": str(exc)}
            return
        parts: dict[Part, Callable[[], tuple[list[Result], dict[str, JsonValue]]]] = {
            "toys": self._toys,
            "losses": lambda: measure_losses(has_bars=self._bench.has_bars),
            "errands": self._errands,
            "rft": self._rft,
            "processes": lambda: measure_processes(self._bench.processes, has_bars=self._bench.has_bars),
            "workers": lambda: measure_workers(
                self._bench.workers, has_bars=self._bench.has_bars, on_done=self._on_done
            ),
            "size": lambda: measure_size(has_bars=self._bench.has_bars),
        }
        results, details = parts[part]()
        self.results += results
        self.details[part] = details
        if part in {"losses", "processes", "size"}:
            self._on_done()

    def _toys(self) -> tuple[list[Result], dict[str, JsonValue]]:
        bench = self._bench
        ledger = Ledger(bench.folder / "toys", bench.toys)
        with torch_threads(1):
            found = measure_toys(ledger, range(bench.toys_seeds), bench.toys, on_done=self._on_done)
        return toys_results(found, has_bars=bench.has_bars), toys_details(found)

    def _errands(self) -> tuple[list[Result], dict[str, JsonValue]]:
        bench = self._bench
        ledger = Ledger(bench.folder / "errands", bench.courses)
        with torch_threads(bench.threads):
            self.courses = measure_courses(
                ledger,
                self._model(bench.courses.errands),
                range(bench.courses_seeds),
                settings=bench.courses,
                on_done=self._on_done,
            )
        return courses_results(self.courses), courses_details(self.courses)

    def _rft(self) -> tuple[list[Result], dict[str, JsonValue]]:
        bench = self._bench
        ledger = Ledger(bench.folder / "rft", bench.rft)
        with torch_threads(bench.threads):
            self.rft = measure_rft(
                ledger,
                self._model(bench.rft.errands),
                range(bench.rft_seeds),
                settings=bench.rft,
                on_done=self._on_done,
            )
        return self.rft.results(), rft_details(self.rft)

    def _model(self, errands: ErrandsSettings) -> Path:
        """Where the model that everything starts from lies: one for both parts with equal settings."""
        return self._bench.folder / f"model-{digest(errands)}"

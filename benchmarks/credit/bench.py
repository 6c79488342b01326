"""All parts of ``python -m benchmarks credit``; stored measurements are not repeated."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias

from benchmarks.credit.errands_setup import ErrandsSettings
from benchmarks.credit.estimator import ESTIMATORS
from benchmarks.credit.key_door_comparison import KeyDoorSettings, measure_key_door
from benchmarks.credit.measurements import PartResults
from benchmarks.credit.summary import best_estimators, details, results
from benchmarks.result_cache import ResultCache
from upturn.records import JsonValue, Result

Part: TypeAlias = Literal["key_door", "errands"]
PARTS: tuple[Part, ...] = ("key_door", "errands")


@dataclass(frozen=True, slots=True)
class CreditBench:
    """Parts and their settings."""

    folder: Path
    """Folder of stored measurements."""
    parts: tuple[Part, ...] = PARTS
    key_door: KeyDoorSettings = field(default_factory=KeyDoorSettings)
    key_door_seeds: int = 20
    errands: ErrandsSettings = field(default_factory=ErrandsSettings)
    errands_seeds: int = 5
    threads: int = 1
    """Threads of torch, in errands."""

    @property
    def steps(self) -> int:
        """Number of ``on_done`` calls of ``measure``."""
        key_door = len(ESTIMATORS) * (1 + 2 * self.key_door_seeds) * ("key_door" in self.parts)
        return key_door + self.errands_seeds * (1 + 2 * len(ESTIMATORS)) * ("errands" in self.parts)

    @property
    def seeds(self) -> dict[str, JsonValue]:
        """Number of seeds by part."""
        return {part: {"key_door": self.key_door_seeds, "errands": self.errands_seeds}[part] for part in self.parts}

    def with_seeds(self, seeds: int) -> "CreditBench":
        """A copy with another number of seeds in every part."""
        return replace(self, key_door_seeds=seeds, errands_seeds=seeds)


def quick_bench(folder: Path, parts: tuple[Part, ...]) -> CreditBench:
    """A smoke test of seconds; its figures are not meaningful."""
    key_door = KeyDoorSettings(
        skills=(0.5,),
        agreement_groups=2,
        group_size=4,
        budget=600,
        min_actions=200,
        learning_rates=(0.3,),
        groups=(2,),
        tuning_seeds=1,
        tuning_budget=300,
    )
    errands = ErrandsSettings(
        demonstrations=4,
        epochs=1,
        agreement_tasks=2,
        group_size=3,
        continuations=4,
        tasks=2,
        evaluate_every=1,
        evaluation_tasks=3,
        budget=300,
    )
    return CreditBench(folder, parts, key_door, 2, errands, 1)


class Measurement(NamedTuple):
    """Results of all parts."""

    results: list[Result]
    details: dict[str, JsonValue]
    parts: list[PartResults]


def measure(bench: CreditBench, *, on_done: Callable[[], None] = lambda: None) -> Measurement:
    """Measures the parts in their order; calls ``on_done`` ``bench.steps`` times."""
    parts = []
    if "key_door" in bench.parts:
        cache = ResultCache(bench.folder / "key_door", bench.key_door)
        seeds = range(bench.key_door_seeds)
        parts.append(measure_key_door(cache, ESTIMATORS, seeds, bench.key_door, on_done=on_done))
    if "errands" in bench.parts:
        from benchmarks.credit.errands_comparison import measure_errands
        from upturn.training.optimisation import torch_threads

        cache = ResultCache(bench.folder / "errands", bench.errands)
        model = bench.folder / "errands" / f"model-{cache.digest}"
        seeds = range(bench.errands_seeds)
        with torch_threads(bench.threads):
            parts.append(measure_errands(cache, model, ESTIMATORS, seeds, settings=bench.errands, on_done=on_done))
    rows = [row for part in parts for row in results(part)]
    return Measurement([*rows, best_estimators(parts)], {part.name: details(part) for part in parts}, parts)

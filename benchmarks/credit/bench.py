"""All parts of ``python -m benchmarks credit``: measured where they are not, read where they are, and summed up."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias

from benchmarks.credit.errands_setup import ErrandsSettings
from benchmarks.credit.estimator import CONTENDERS
from benchmarks.credit.key_door_comparison import KeyDoorSettings, measure_key_door
from benchmarks.credit.measurements import PartFindings
from benchmarks.credit.summary import ahead, details, results
from benchmarks.result_cache import Ledger
from upturn.records import JsonValue, Result

Part: TypeAlias = Literal["key_door", "errands"]
PARTS: tuple[Part, ...] = ("key_door", "errands")


@dataclass(frozen=True, slots=True)
class CreditBench:
    """What is measured."""

    folder: Path
    """Where measurements are kept; what is there is not measured again."""
    parts: tuple[Part, ...] = PARTS
    key_door: KeyDoorSettings = field(default_factory=KeyDoorSettings)
    key_door_seeds: int = 20
    errands: ErrandsSettings = field(default_factory=ErrandsSettings)
    errands_seeds: int = 5
    threads: int = 1
    """Of torch, in errands."""

    @property
    def steps(self) -> int:
        """How often ``measure`` reports."""
        key_door = len(CONTENDERS) * (1 + 2 * self.key_door_seeds) * ("key_door" in self.parts)
        return key_door + self.errands_seeds * (1 + 2 * len(CONTENDERS)) * ("errands" in self.parts)

    @property
    def seeds(self) -> dict[str, JsonValue]:
        """Of each part that is measured."""
        return {part: {"key_door": self.key_door_seeds, "errands": self.errands_seeds}[part] for part in self.parts}

    def with_seeds(self, seeds: int) -> "CreditBench":
        """The same with another number of seeds in every part."""
        return replace(self, key_door_seeds=seeds, errands_seeds=seeds)


def quick_bench(folder: Path, parts: tuple[Part, ...]) -> CreditBench:
    """So small that all of it takes seconds: shows that everything works, measures nothing."""
    settings = KeyDoorSettings(
        skills=(0.5,), ranked_groups=2, attempts=4, budget=600, shown=200, learning_rates=(0.3,), groups=(2,)
    )
    errands = ErrandsSettings(
        demonstrations=4, epochs=1, ranked_tasks=2, attempts=3, continuations=4, tasks=2, evaluate_every=1
    )
    return CreditBench(
        folder,
        parts,
        replace(settings, choice_seeds=1, choice_budget=300),
        2,
        replace(errands, examined_tasks=3, budget=300),
        1,
    )


class Measured(NamedTuple):
    """What came out."""

    results: list[Result]
    details: dict[str, JsonValue]
    parts: list[PartFindings]


def measure(bench: CreditBench, *, on_done: Callable[[], None] = lambda: None) -> Measured:
    """The parts in their order; ``on_done`` after each of the bench's ``steps``."""
    found = []
    if "key_door" in bench.parts:
        ledger = Ledger(bench.folder / "key_door", bench.key_door)
        seeds = range(bench.key_door_seeds)
        found.append(measure_key_door(ledger, CONTENDERS, seeds, bench.key_door, on_done=on_done))
    if "errands" in bench.parts:
        from benchmarks.credit.errands_comparison import measure_errands
        from upturn.training.optimisation import torch_threads

        ledger = Ledger(bench.folder / "errands", bench.errands)
        model = bench.folder / "errands" / f"model-{ledger.key}"
        seeds = range(bench.errands_seeds)
        with torch_threads(bench.threads):
            found.append(measure_errands(ledger, model, CONTENDERS, seeds, settings=bench.errands, on_done=on_done))
    listed = [result for part in found for result in results(part)]
    return Measured([*listed, ahead(found)], {part.name: details(part) for part in found}, found)

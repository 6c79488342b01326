"""All parts of ``upturn bench credit``: measured where they are not, read where they are, and summed up."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias

from upturn.bench.credit.contender import CONTENDERS
from upturn.bench.credit.finding import PartFindings
from upturn.bench.credit.key_door_part import KeyDoorSettings, measure_key_door
from upturn.bench.credit.ledger import Ledger
from upturn.bench.credit.summary import ahead, details, results
from upturn.records import JsonValue, Result

Part: TypeAlias = Literal["key_door"]
PARTS: tuple[Part, ...] = ("key_door",)


@dataclass(frozen=True, slots=True)
class CreditBench:
    """What is measured."""

    folder: Path
    """Where measurements are kept; what is there is not measured again."""
    parts: tuple[Part, ...] = PARTS
    key_door: KeyDoorSettings = field(default_factory=KeyDoorSettings)
    key_door_seeds: int = 20

    @property
    def steps(self) -> int:
        """How often ``measure`` reports."""
        return len(CONTENDERS) * (1 + 2 * self.key_door_seeds) * ("key_door" in self.parts)

    @property
    def seeds(self) -> dict[str, JsonValue]:
        """Of each part that is measured."""
        return {"key_door": self.key_door_seeds} if "key_door" in self.parts else {}

    def with_seeds(self, seeds: int) -> "CreditBench":
        """The same with another number of seeds in every part."""
        return replace(self, key_door_seeds=seeds)


def quick_bench(folder: Path, parts: tuple[Part, ...]) -> CreditBench:
    """So small that all of it takes seconds: shows that everything works, measures nothing."""
    settings = KeyDoorSettings(
        skills=(0.5,), ranked_groups=2, attempts=4, budget=600, shown=200, learning_rates=(0.3,), groups=(2,)
    )
    return CreditBench(folder, parts, replace(settings, choice_seeds=1, choice_budget=300), key_door_seeds=2)


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
    listed = [result for part in found for result in results(part)]
    return Measured([*listed, ahead(found)], {part.name: details(part) for part in found}, found)

"""Every way of learning on toys whose optimum is known, from several seeds: the lowest of them counts."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from typing import NamedTuple

from benchmarks.algorithms.toy import TOYS, Toy
from benchmarks.algorithms.toy_algorithms import CONTESTANTS
from benchmarks.algorithms.toy_training import Contest, Contestant, Reached
from benchmarks.comparison import Bar, Spread, result
from benchmarks.result_cache import Entry, Ledger
from upturn.records import JsonValue, Result

LOWEST = 0.95
"""Of the optimum, in every seed."""


@dataclass(frozen=True, slots=True)
class ToysSettings:
    """Everything that decides a result, beside way, toy and seed."""

    sizes: Mapping[str, int] = field(default_factory=lambda: {"bandit": 8, "key_door": 3, "language": 3, "lamp": 6})
    """By toy: arms, colours, letters, buttons."""
    rounds: int | None = None
    """So many rounds or epochs each, from few attempts; None = as each is set."""


QUICK = ToysSettings({"bandit": 3, "lamp": 3}, rounds=2)
"""Shows that every way runs."""


class Place(NamedTuple):
    """One way on one toy."""

    toy: str
    way: str


def places(settings: ToysSettings) -> list[Place]:
    """All that are measured, toy by toy."""
    return [Place(toy, way) for toy in settings.sizes for way, each in CONTESTANTS.items() if toy in each.toys]


def measure_toys(
    ledger: Ledger,
    seeds: Sequence[int],
    settings: ToysSettings,
    *,
    on_done: Callable[[], None] = lambda: None,
) -> Mapping[Place, Sequence[Reached]]:
    """Measures what is not in the ledger yet; ``on_done`` after each of seeds · places.

    By seed. Uses torch with the threads that the caller has set.
    """
    found: dict[Place, list[Reached]] = {}
    for place in places(settings):
        contestant = CONTESTANTS[place.way]
        contestant = contestant if settings.rounds is None else contestant.shortened(settings.rounds)
        found[place] = []
        for seed in seeds:
            entry = Entry(place.toy, place.way, seed, contestant.options)
            measure = partial(_reached, contestant, TOYS[place.toy](settings.sizes[place.toy]), seed)
            found[place].append(ledger.measured(entry, Reached, measure))
            on_done()
    return found


def _reached(contestant: Contestant, toy: Toy, seed: int) -> Reached:
    with TemporaryDirectory() as name:
        return contestant.reached(Contest(toy, seed, Path(name)))


def toys_results(found: Mapping[Place, Sequence[Reached]], *, has_bars: bool) -> list[Result]:
    """Of each place the lowest worth; the interval is the spread over the seeds."""
    bar = Bar(LOWEST) if has_bars else None
    results = []
    for place, seeds in found.items():
        worths = [each.worth for each in seeds]
        lowest = Spread(min(worths), min(worths), max(worths), len(worths))
        results.append(result(f"toys_{place.toy}_{place.way}", lowest, "of the optimum", bar))
    return results


def toys_details(found: Mapping[Place, Sequence[Reached]]) -> dict[str, JsonValue]:
    """By toy and way: what it was worth before, sampled tokens and processor seconds, as means over the seeds."""
    details: dict[str, dict[str, JsonValue]] = {}
    for place, seeds in found.items():
        details.setdefault(place.toy, {})[place.way] = {
            "start": round(fmean(each.start for each in seeds), 4),
            "sampled_tokens": round(fmean(each.tokens for each in seeds)),
            "processor_seconds": round(fmean(each.seconds for each in seeds), 2),
        }
    return dict(details)

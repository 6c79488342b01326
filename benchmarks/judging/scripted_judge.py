"""Judges of known skill and biases, and labelled pairs of known quality, to test the meters and the protocol on."""

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random

from upturn.rewards.judging import Pair, Verdict

VENDORS = ("north", "south", "east")


@dataclass(frozen=True, slots=True)
class Work:
    """What a scripted judge knows about a text."""

    quality: float
    vendor: str


@dataclass(frozen=True, slots=True)
class ScriptedJudge:
    """Prefers the better work, shifted by its biases; the same question has the same answer. A ``PairJudge``.

    The difference of two works is skill · (quality of the first − of the second) + biases + noise.
    """

    vendor: str
    works: Mapping[str, Work]
    """By text."""
    skill: float = 1.5
    place: float = 0.0
    """Added for the work shown first."""
    length: float = 0.0
    """Added for the longer work."""
    own: float = 0.0
    """Added for a work of the judge's vendor."""
    silence: float = 0.0
    """Probability of no verdict."""
    seed: int = 0

    def __call__(self, task: str, first: str, second: str) -> Verdict:
        """The verdict; a tie where the difference is below 0.05."""
        chance = Random(f"{self.seed}/{self.vendor}/{task}/{first}/{second}")
        taste = Random(f"{self.seed}/{self.vendor}/{task}/{min(first, second)}/{max(first, second)}").gauss(0, 0.5)
        one, other = self.works[first], self.works[second]
        difference = self.skill * (one.quality - other.quality) + self.place + chance.gauss(0, 0.3)
        difference += taste if first < second else -taste
        difference += self.length * ((len(first) > len(second)) - (len(first) < len(second)))
        difference += self.own * ((one.vendor == self.vendor) - (other.vendor == self.vendor))
        if chance.random() < self.silence:
            return None
        return "tie" if abs(difference) < 0.05 else "first" if difference > 0 else "second"


def labelled_pairs(count: int, seed: int) -> tuple[list[Pair], dict[str, Work]]:
    """Pairs of works whose length and vendor say nothing about their quality; the label is the better one."""
    chance, pairs, works = Random(seed), list[Pair](), dict[str, Work]()
    for number in range(count):
        sides = []
        for side in ("a", "b"):
            text = f"{number}{side}".ljust(chance.randint(8, 200), "x")
            works[text] = Work(chance.gauss(0, 1), chance.choice(VENDORS))
            sides.append(text)
        first, second = sides
        label = "first" if works[first].quality > works[second].quality else "second"
        authors = (works[first].vendor, works[second].vendor)
        pairs.append(Pair(f"p{number}", f"task {number}", first, second, label, authors))  # type: ignore[arg-type]
    return pairs, works

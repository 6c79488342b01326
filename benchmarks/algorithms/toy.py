"""Toys whose best policy is known: a bandit, an errand of two turns, a tiny language, and a lamp. No torch here.

A task opens with some tokens; in each turn a fixed number of tokens is written, and a few more are shown between
turns. Reward 1 is the most that any attempt can earn, and there is a way to earn it in every task, so the optimum
is 1. Everything that earns anything can be listed, so what a policy is worth is an exact sum.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

from upturn.records import Task

HINT, START, ASK, SHOWN = 0, 1, 2, 3
"""Tokens that stand for "it was said", for the beginning, for "write now" and for "this is what came of it"."""
FIRST = 4
"""The first token that means something."""


class Earning(NamedTuple):
    """One way to earn something."""

    written: tuple[tuple[int, ...], ...]
    """Tokens by turn."""
    rewards: tuple[float, ...]
    """By turn."""


@dataclass(frozen=True, slots=True)
class Toy:
    """Tasks and what attempts at them earn."""

    name: str
    vocabulary: int
    turns: int
    written: int
    """Tokens in each turn."""
    openings: Mapping[str, tuple[int, ...]]
    """By task: what the model reads first."""
    earnings: Mapping[str, tuple[Earning, ...]]
    """By task: everything that earns something, the best first; all else earns 0."""
    observations: Mapping[str, Mapping[tuple[int, ...], tuple[int, ...]]]
    """By task: what is shown after a first turn that wrote this; empty where there is one turn only."""
    otherwise: tuple[int, ...] = ()
    """What is shown after any other."""

    @property
    def tasks(self) -> list[Task]:
        """In a fixed order."""
        return [Task(name, self.name, self.name, "toy") for name in self.openings]

    def shown(self, task: str, turn: Sequence[int]) -> tuple[int, ...]:
        """What the environment answers to a turn that is not the last."""
        return self.observations[task].get(tuple(turn), self.otherwise)

    def rewards(self, task: str, written: Sequence[Sequence[int]]) -> tuple[float, ...]:
        """By turn, of a whole attempt."""
        found = tuple(map(tuple, written))
        return next((each.rewards for each in self.earnings[task] if each.written == found), (0.0,) * self.turns)

    def best(self, task: str) -> Earning:
        """What earns most."""
        return self.earnings[task][0]

    def tokens(self, task: str, written: Sequence[Sequence[int]]) -> tuple[int, ...]:
        """The whole attempt, as a model reads and writes it."""
        found = list(self.openings[task])
        for index, turn in enumerate(written):
            found += turn
            if index + 1 < self.turns:
                found += self.shown(task, turn)
        return tuple(found)

    def spans(self, task: str) -> Iterator[tuple[int, int]]:
        """Where each turn's tokens stand in an attempt."""
        start = len(self.openings[task])
        for _ in range(self.turns):
            yield start, start + self.written
            start += self.written + len(self.otherwise)


def bandit(arms: int) -> Toy:
    """One token: the arm that the task names pays 1, its neighbour 0.25."""
    symbols = range(FIRST, FIRST + arms)
    return Toy(
        "bandit",
        FIRST + arms,
        turns=1,
        written=1,
        openings={f"arm-{symbol}": (START, symbol, ASK) for symbol in symbols},
        earnings={
            f"arm-{symbol}": (
                Earning(((symbol,),), (1.0,)),
                Earning(((FIRST + (symbol + 1 - FIRST) % arms,),), (0.25,)),
            )
            for symbol in symbols
        },
        observations={},
    )


def key_door(colours: int) -> Toy:
    """Two turns: fetch the key of the task's colour, then open the door that the key's tag names.

    The right key earns 0.2 and the door another 0.8; whoever goes home at once earns 0.1, in every task alike.
    The tag is seen only with the right key in hand, so that the second turn cannot be learned before the first.
    """
    symbols = range(FIRST, FIRST + colours)
    home = FIRST + colours
    openings, earnings = {}, {}
    observations: dict[str, dict[tuple[int, ...], tuple[int, ...]]] = {}
    for colour, tag in product(symbols, symbols):
        task = f"key-{colour}-{tag}"
        openings[task] = (START, colour, ASK)
        earnings[task] = (
            Earning(((colour,), (tag,)), (0.2, 0.8)),
            *(Earning(((colour,), (second,)), (0.2, 0.0)) for second in range(home + 1) if second != tag),
            *(Earning(((home,), (second,)), (0.1, 0.0)) for second in range(home + 1)),
        )
        observations[task] = {(colour,): (SHOWN, tag, ASK)}
    return Toy(
        "key_door",
        home + 1,
        turns=2,
        written=1,
        openings=openings,
        earnings=earnings,
        observations=observations,
        otherwise=(SHOWN, SHOWN, ASK),
    )


def language(letters: int, length: int = 2) -> Toy:
    """A word is read and must be written backwards; only the whole word counts."""
    symbols = range(FIRST, FIRST + letters)
    words = list(product(symbols, repeat=length))
    return Toy(
        "language",
        FIRST + letters,
        turns=1,
        written=length,
        openings={"word-" + "-".join(map(str, word)): (START, *word, ASK) for word in words},
        earnings={"word-" + "-".join(map(str, word)): (Earning((word[::-1],), (1.0,)),) for word in words},
        observations={},
    )


def lamp(buttons: int) -> Toy:
    """A world to predict: each button makes the lamp show a colour of its own, which is written with an end.

    Nobody acts here; an attempt is a prediction, worth 1 when it is right.
    """
    symbols = range(FIRST, FIRST + buttons)
    return Toy(
        "lamp",
        FIRST + buttons,
        turns=1,
        written=2,
        openings={f"press-{symbol}": (START, symbol, SHOWN) for symbol in symbols},
        earnings={
            f"press-{symbol}": (Earning(((FIRST + (symbol + 1 - FIRST) % buttons, ASK),), (1.0,)),)
            for symbol in symbols
        },
        observations={},
    )


TOYS: Mapping[str, Callable[[int], Toy]] = {
    "bandit": bandit,
    "key_door": key_door,
    "language": language,
    "lamp": lamp,
}
"""By name; each takes its size."""
ACTED = ("bandit", "key_door", "language")
"""Those in which one acts."""

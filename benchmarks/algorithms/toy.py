"""Toys with a known optimal policy: a bandit, a key and a door, a tiny language, and a lamp. No torch.

A task starts with some tokens; in each turn a fixed number of tokens is written, and an observation follows between
turns. The largest reward of a rollout is 1 and possible in every task, so the optimum is 1. All rewarded rollouts
can be listed, so the expected reward of a policy is an exact sum.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import NamedTuple

from upturn.records import Task

HINT, START, ASK, SHOWN = 0, 1, 2, 3
"""Tokens that precede a hint, start a task, request an action, and precede an observation."""
FIRST = 4
"""The first token of the toy's alphabet."""


class RewardedRollout(NamedTuple):
    """Written tokens with a reward."""

    written: tuple[tuple[int, ...], ...]
    """Tokens by turn."""
    rewards: tuple[float, ...]
    """By turn."""


@dataclass(frozen=True, slots=True)
class Toy:
    """Tasks and the rewards of rollouts on them."""

    name: str
    vocabulary: int
    turns: int
    written: int
    """Tokens per turn."""
    openings: Mapping[str, tuple[int, ...]]
    """By task: the tokens that the model reads first."""
    rewarded: Mapping[str, tuple[RewardedRollout, ...]]
    """By task: all rollouts with a reward, the best first; all others earn 0."""
    observations: Mapping[str, Mapping[tuple[int, ...], tuple[int, ...]]] = field(default_factory=dict)
    """By task: the observation after a first turn with these tokens; empty in toys of one turn."""
    default_observation: tuple[int, ...] = ()

    @property
    def tasks(self) -> list[Task]:
        """In a fixed order."""
        return [Task(name, self.name, self.name, "toy") for name in self.openings]

    def observation(self, task: str, turn: Sequence[int]) -> tuple[int, ...]:
        """The observation after a turn that is not the last."""
        return self.observations[task].get(tuple(turn), self.default_observation)

    def rewards(self, task: str, written: Sequence[Sequence[int]]) -> tuple[float, ...]:
        """Rewards by turn of a complete rollout."""
        turns = tuple(map(tuple, written))
        return next(
            (rollout.rewards for rollout in self.rewarded[task] if rollout.written == turns), (0.0,) * self.turns
        )

    def best(self, task: str) -> RewardedRollout:
        """The rollout with the largest reward."""
        return self.rewarded[task][0]

    def tokens(self, task: str, written: Sequence[Sequence[int]]) -> tuple[int, ...]:
        """All tokens of a rollout in the order in which the model reads and writes them."""
        tokens = list(self.openings[task])
        for index, turn in enumerate(written):
            tokens += turn
            if index + 1 < self.turns:
                tokens += self.observation(task, turn)
        return tuple(tokens)

    def spans(self, task: str) -> Iterator[tuple[int, int]]:
        """Start and end of each turn's tokens in a rollout."""
        start = len(self.openings[task])
        for _ in range(self.turns):
            yield start, start + self.written
            start += self.written + len(self.default_observation)


def bandit(arms: int) -> Toy:
    """One token: the arm that the task names pays 1, the next one 0.25."""
    symbols = range(FIRST, FIRST + arms)
    return Toy(
        "bandit",
        FIRST + arms,
        turns=1,
        written=1,
        openings={f"arm-{symbol}": (START, symbol, ASK) for symbol in symbols},
        rewarded={
            f"arm-{symbol}": (
                RewardedRollout(((symbol,),), (1.0,)),
                RewardedRollout(((FIRST + (symbol + 1 - FIRST) % arms,),), (0.25,)),
            )
            for symbol in symbols
        },
    )


def key_door(colours: int) -> Toy:
    """Two turns: fetch the key of the task's colour, then open the door that the key's tag names.

    The right key earns 0.2 and the door another 0.8; going home at once earns 0.1 in every task. The tag is visible
    only with the right key in hand, so the second turn cannot be learned before the first.
    """
    symbols = range(FIRST, FIRST + colours)
    home = FIRST + colours
    openings, rewarded = {}, {}
    observations: dict[str, dict[tuple[int, ...], tuple[int, ...]]] = {}
    for colour, tag in product(symbols, symbols):
        task = f"key-{colour}-{tag}"
        openings[task] = (START, colour, ASK)
        rewarded[task] = (
            RewardedRollout(((colour,), (tag,)), (0.2, 0.8)),
            *(RewardedRollout(((colour,), (second,)), (0.2, 0.0)) for second in range(home + 1) if second != tag),
            *(RewardedRollout(((home,), (second,)), (0.1, 0.0)) for second in range(home + 1)),
        )
        observations[task] = {(colour,): (SHOWN, tag, ASK)}
    return Toy(
        "key_door",
        home + 1,
        turns=2,
        written=1,
        openings=openings,
        rewarded=rewarded,
        observations=observations,
        default_observation=(SHOWN, SHOWN, ASK),
    )


def language(letters: int, length: int = 2) -> Toy:
    """A word is read and must be written backwards; only the whole word is rewarded."""
    words = list(product(range(FIRST, FIRST + letters), repeat=length))
    names = ["word-" + "-".join(map(str, word)) for word in words]
    return Toy(
        "language",
        FIRST + letters,
        turns=1,
        written=length,
        openings={name: (START, *word, ASK) for name, word in zip(names, words, strict=True)},
        rewarded={name: (RewardedRollout((word[::-1],), (1.0,)),) for name, word in zip(names, words, strict=True)},
    )


def lamp(buttons: int) -> Toy:
    """A world to predict: each button makes the lamp show another colour, which is written with an end token.

    A rollout is a prediction instead of an action; a correct one earns 1.
    """
    symbols = range(FIRST, FIRST + buttons)
    return Toy(
        "lamp",
        FIRST + buttons,
        turns=1,
        written=2,
        openings={f"press-{symbol}": (START, symbol, SHOWN) for symbol in symbols},
        rewarded={
            f"press-{symbol}": (RewardedRollout(((FIRST + (symbol + 1 - FIRST) % buttons, ASK),), (1.0,)),)
            for symbol in symbols
        },
    )


TOYS: Mapping[str, Callable[[int], Toy]] = {
    "bandit": bandit,
    "key_door": key_door,
    "language": language,
    "lamp": lamp,
}
"""By name; each function takes the toy's size."""
ACTION_TOYS = ("bandit", "key_door", "language")
"""Toys with actions, not predictions."""

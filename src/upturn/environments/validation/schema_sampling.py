"""Values that fit a tool's schema, drawn from what is found in a world: how one acts who knows only the tools.

Words come from the instruction and from observations. Which kind of word a parameter takes is learned from what was
accepted: ``m27`` has the shape ``a9``. Schemas are read as far as descriptions of tools go: ``enum``, ``const``,
types, bounds, ``anyOf`` and ``oneOf``, ``items`` and ``properties``; not ``$ref``, formats and patterns.
"""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Container, Iterable, Mapping
from functools import lru_cache
from random import Random
from typing import NamedTuple, TypeAlias

from upturn.records import Action, JsonValue, Observation, Tool

_WORD = re.compile(r'"([^"\n]+)"|([^\s,;:"\'()\[\]{}<>]+)')
_ENDINGS = ".?!*"
_MOST_WORDS = 400
"""Of each source: a long document tells no more about how things are named here."""
_ENOUGH_REFUSALS = 5
_LONGEST_NUMBER = 10
"""Digits; longer ones are taken for names."""
_NUMBERS = (0, 20)
"""Drawn from where a schema names no bounds."""
_BOUNDS = ("minimum", "maximum")


Place: TypeAlias = tuple[str, str]
"""Where a value is given: an app and the name of a parameter, which its operations share."""


def words_of(text: str) -> list[str]:
    """The words of a text and its quoted phrases, each once, in order."""
    found = (quoted or bare.strip(_ENDINGS) for quoted, bare in _WORD.findall(text))
    return list(dict.fromkeys(word for word in found if word))


@lru_cache(maxsize=100_000)
def shape_of(word: str) -> str:
    """Letters as ``a`` and ``A``, digits as ``9``, runs as one; other signs as they are."""
    kinds = re.sub(r"[^\W\d_]", lambda match: "A" if match[0].isupper() else "a", word)
    return re.sub(r"(a+|A+|9+)", lambda match: match[0][0], re.sub(r"\d", "9", kinds))


def is_text(schema: JsonValue) -> bool:
    """Whether the schema takes any text."""
    kind = schema.get("type", "string") if isinstance(schema, dict) else None
    kinds = kind if isinstance(kind, list) else [kind]
    return (
        isinstance(schema, dict) and "string" in kinds and not {"enum", "const", "anyOf", "oneOf"} & schema.keys()
    )


def text_parameters(tool: Tool) -> list[str]:
    """The parameters that take any text, the required ones first."""
    free = [name for name, schema in tool.properties.items() if is_text(schema)]
    return sorted(free, key=lambda name: name not in tool.required)


class Bounds(NamedTuple):
    """Between which a number lies, both included."""

    low: float
    high: float


def bounds_of(schema: Mapping[str, JsonValue]) -> Bounds:
    """The schema's; one that it does not name is as usual, or where the other one is if that lies beyond."""
    low, high = (bound if isinstance(bound := schema.get(name), int | float) else None for name in _BOUNDS)
    if low is None:
        low = _NUMBERS[0] if high is None else min(_NUMBERS[0], high)
    return Bounds(low, max(_NUMBERS[1], low) if high is None else high)


def number_within(schema: Mapping[str, JsonValue], draw: Callable[[int, int], int]) -> float:
    """A whole number that the schema takes, as ``draw(first, last)`` gives it; the lower bound where there is no
    whole one."""
    low, high = bounds_of(schema)
    first, last = math.ceil(low), math.floor(high)
    return float(draw(first, last)) if first <= last else low


class Habits:
    """Which words the parameters of an app take, learned over all tasks of a family.

    Once something was accepted, shapes that never were are left out after a few refusals, whatever they were for.
    """

    def __init__(self) -> None:
        self._values: defaultdict[Place, dict[str, None]] = defaultdict(dict)
        self._accepted: set[tuple[Place, str]] = set()
        self._refusals: Counter[tuple[Place, str]] = Counter()

    def learn(self, place: Place, value: str, *, is_accepted: bool) -> None:
        """A call with this value was accepted, or refused."""
        if is_accepted:
            self._values[place].setdefault(value)
            self._accepted.add((place, shape_of(value)))
        else:
            self._refusals[place, shape_of(value)] += 1

    def fitting(self, place: Place, words: "Words") -> list[str]:
        """The words without those whose shape is not taken there."""
        taken = {shape for shape in words.shapes if self._may_fit(place, shape)}
        return [word for word, shape in words.items() if shape in taken]

    def known(self, place: Place, words: Container[str]) -> list[str]:
        """Values that were accepted before, in whatever task, and are among the words."""
        return [value for value in self._values[place] if value in words]

    def _may_fit(self, place: Place, shape: str) -> bool:
        is_open = not self._values[place] or self._refusals[place, shape] < _ENOUGH_REFUSALS
        return is_open or (place, shape) in self._accepted


class Words(dict[str, str]):
    """Words in the order in which they were found, with their shapes: what is drawn from again and again."""

    def __init__(self, words: Iterable[str] = ()) -> None:
        super().__init__()
        self.shapes: set[str] = set()
        self.numbers: list[float] = []
        """Those of them that are whole numbers."""
        for word in words:
            self.add(word)

    def add(self, word: str) -> None:
        """A word, unless it is known."""
        if word not in self:
            self[word] = shape = shape_of(word)
            self.shapes.add(shape)
            if word.isascii() and word.isdigit() and len(word) < _LONGEST_NUMBER:
                self.numbers.append(float(word))


class Vocabulary:
    """The words of one task's world, by where they were found."""

    def __init__(self, instruction: str, habits: Habits) -> None:
        self._instruction = Words(words_of(instruction))
        self._habits = habits
        self._everywhere = Words(self._instruction)
        self._by_target: defaultdict[str, Words] = defaultdict(Words)
        self._by_refusal: defaultdict[str, Words] = defaultdict(Words)
        self._accepted: defaultdict[Place, dict[str, None]] = defaultdict(dict)

    @property
    def words(self) -> tuple[str, ...]:
        """All of them, those of the instruction first."""
        return tuple(self._everywhere)

    def kinds(self) -> list[list[str]]:
        """The words by their shape, such as all names of people; those that are alone in theirs are left out."""
        found: defaultdict[str, list[str]] = defaultdict(list)
        for word, shape in self._everywhere.items():
            found[shape].append(word)
        return [words for words in found.values() if len(words) > 1]

    def learn(self, tool: Tool, action: Action, observation: Observation) -> None:
        """What the tool answered; refusals often name what there is."""
        for word in words_of(observation.text)[:_MOST_WORDS]:
            self._everywhere.add(word)
            self._by_target[tool.target].add(word)
            if observation.is_error:
                self._by_refusal[tool.name].add(word)
        for name in text_parameters(tool):
            value, place = action.parameters.get(name), (tool.target, name)
            if isinstance(value, str):
                self._habits.learn(place, value, is_accepted=not observation.is_error)
                if not observation.is_error:
                    self._accepted[place].setdefault(value)

    def draw(self, tool: Tool, rng: Random, *, is_blind: bool = False) -> dict[str, JsonValue]:
        """Parameters for the tool; each optional one is left out half of the time.

        Texts are words that were accepted before, half of the time and where there are any; otherwise such as were
        found near the app or in the instruction first, or (``is_blind``) anywhere with the same chance.
        """
        chosen = [name for name in tool.properties if name in tool.required or rng.random() < 0.5]
        return {name: self._value(tool, name, rng, is_blind) for name in chosen}

    def _value(self, tool: Tool, name: str, rng: Random, is_blind: bool) -> JsonValue:
        schema, place = tool.properties[name], (tool.target, name)
        if not is_text(schema):
            return self._typed(schema, rng)
        accepted = self._accepted[place] or self._habits.known(place, self._everywhere)
        if accepted and rng.random() < 0.5:
            return rng.choice(list(accepted))
        near = (self._by_refusal[tool.name], self._by_target[tool.target], self._instruction)
        sources = () if is_blind else rng.sample(near, rng.randint(0, len(near) - 1))
        for source in (*sources, self._everywhere):
            if words := self._habits.fitting(place, source):
                return rng.choice(words)
        return rng.choice(self.words or ("x",))

    def siblings(self, tool: Tool, name: str, value: JsonValue) -> list[JsonValue]:
        """Other values that the parameter may take in place of this one."""
        schema = tool.properties.get(name)
        if isinstance(schema, dict) and isinstance(schema.get("enum"), list):
            return [other for other in schema["enum"] if other != value]  # type: ignore[union-attr]
        if isinstance(value, int) and not isinstance(value, bool):
            return [value + 1, value - 1]
        if not isinstance(value, str):
            return []
        shape = shape_of(value)
        alike = [word for word, other in self._everywhere.items() if other == shape]
        found = dict.fromkeys((*self._accepted[tool.target, name], *alike))
        return [word for word in found if word != value]

    def _typed(self, schema: JsonValue, rng: Random) -> JsonValue:
        """A value for the schema; where it cannot be read, any word."""
        read = schema if isinstance(schema, dict) else {}
        for key in ("anyOf", "oneOf"):
            if isinstance(options := read.get(key), list) and options:
                return self._typed(rng.choice(options), rng)
        if "const" in read:
            return read["const"]
        if isinstance(options := read.get("enum"), list) and options:
            return rng.choice(options)
        kind = read.get("type")
        match kind[0] if isinstance(kind, list) and kind else kind:
            case "boolean":
                return rng.random() < 0.5
            case "integer":
                return round(self._number(read, rng))
            case "number":
                return self._number(read, rng)
            case "array":
                return [self._typed(read.get("items"), rng) for _ in range(rng.randint(1, 2))]
            case "object":
                parts = read.get("properties")
                parts = parts if isinstance(parts, dict) else {}
                return {name: self._typed(part, rng) for name, part in parts.items()}
            case "null":
                return None
        return rng.choice(self.words or ("x",))

    def _number(self, schema: Mapping[str, JsonValue], rng: Random) -> float:
        """Within the bounds; half of the time a number that was found in the world, where there is any."""
        low, high = bounds_of(schema)
        fitting = [number for number in self._everywhere.numbers if low <= number <= high]
        if fitting and rng.random() < 0.5:
            return rng.choice(fitting)
        return number_within(schema, rng.randint)

"""Samples parameter values that fit a tool's schema, using the words of a task's world.

Words come from the instruction and from observations. Which kind of word a parameter accepts is inferred from
accepted calls: ``m27`` has the shape ``a9``. Supported parts of schemas: ``enum``, ``const``, types, bounds,
``anyOf`` and ``oneOf``, ``items`` and ``properties``; not ``$ref``, formats and patterns.
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
_MAX_WORDS = 400
"""Words per source: a longer document adds no new kinds of names."""
_MAX_REFUSALS = 5
_MAX_DIGITS = 10
"""Longer numbers count as names."""
_DEFAULT_BOUNDS = (0, 20)
"""Bounds of numbers whose schema has none."""
_BOUNDS = ("minimum", "maximum")


Slot: TypeAlias = tuple[str, str]
"""A parameter: an app and the parameter's name, which its operations share."""


def words_of(text: str) -> list[str]:
    """The words of a text and its quoted phrases, each once, in order."""
    words = (quoted or bare.strip(_ENDINGS) for quoted, bare in _WORD.findall(text))
    return list(dict.fromkeys(word for word in words if word))


@lru_cache(maxsize=100_000)
def shape_of(word: str) -> str:
    """The word with letters as ``a`` and ``A`` and digits as ``9``, runs collapsed; other characters unchanged."""
    kinds = re.sub(r"[^\W\d_]", lambda match: "A" if match[0].isupper() else "a", word)
    return re.sub(r"(a+|A+|9+)", lambda match: match[0][0], re.sub(r"\d", "9", kinds))


def is_text(schema: JsonValue) -> bool:
    """Whether the schema accepts any text."""
    kind = schema.get("type", "string") if isinstance(schema, dict) else None
    kinds = kind if isinstance(kind, list) else [kind]
    return (
        isinstance(schema, dict) and "string" in kinds and not {"enum", "const", "anyOf", "oneOf"} & schema.keys()
    )


def text_parameters(tool: Tool) -> list[str]:
    """The parameters that accept any text, the required ones first."""
    free = [name for name, schema in tool.properties.items() if is_text(schema)]
    return sorted(free, key=lambda name: name not in tool.required)


class Bounds(NamedTuple):
    """Bounds of a number, both inclusive."""

    low: float
    high: float


def bounds_of(schema: Mapping[str, JsonValue]) -> Bounds:
    """The schema's bounds; a missing one is the default, or equals the other if that is beyond the default."""
    low, high = (bound if isinstance(bound := schema.get(name), int | float) else None for name in _BOUNDS)
    if low is None:
        low = _DEFAULT_BOUNDS[0] if high is None else min(_DEFAULT_BOUNDS[0], high)
    return Bounds(low, max(_DEFAULT_BOUNDS[1], low) if high is None else high)


def number_within(schema: Mapping[str, JsonValue], draw: Callable[[int, int], int]) -> float:
    """An integer that the schema accepts, from ``draw(first, last)``; the lower bound where there is no integer."""
    low, high = bounds_of(schema)
    first, last = math.ceil(low), math.floor(high)
    return float(draw(first, last)) if first <= last else low


class ParameterHistory:
    """The values that an app's parameters accepted and refused, over all tasks of a family.

    Once a parameter accepted a value, shapes that it never accepted are excluded after a few refusals.
    """

    def __init__(self) -> None:
        self._values: defaultdict[Slot, dict[str, None]] = defaultdict(dict)
        self._accepted: set[tuple[Slot, str]] = set()
        self._refusals: Counter[tuple[Slot, str]] = Counter()

    def record(self, slot: Slot, value: str, *, is_accepted: bool) -> None:
        """Records that a call with this value was accepted or refused."""
        if is_accepted:
            self._values[slot].setdefault(value)
            self._accepted.add((slot, shape_of(value)))
        else:
            self._refusals[slot, shape_of(value)] += 1

    def plausible(self, slot: Slot, words: "Words") -> list[str]:
        """The words whose shape the parameter may accept."""
        accepted = {shape for shape in words.shapes if self._may_fit(slot, shape)}
        return [word for word, shape in words.items() if shape in accepted]

    def accepted(self, slot: Slot, words: Container[str]) -> list[str]:
        """The values among the words that the parameter accepted in any task."""
        return [value for value in self._values[slot] if value in words]

    def _may_fit(self, slot: Slot, shape: str) -> bool:
        is_open = not self._values[slot] or self._refusals[slot, shape] < _MAX_REFUSALS
        return is_open or (slot, shape) in self._accepted


class Words(dict[str, str]):
    """Words in the order of their first occurrence, with their shapes."""

    def __init__(self, words: Iterable[str] = ()) -> None:
        super().__init__()
        self.shapes: set[str] = set()
        self.numbers: list[float] = []
        """The integers among them."""
        for word in words:
            self.add(word)

    def add(self, word: str) -> None:
        """Adds a word unless it is there already."""
        if word not in self:
            self[word] = shape = shape_of(word)
            self.shapes.add(shape)
            if word.isascii() and word.isdigit() and len(word) < _MAX_DIGITS:
                self.numbers.append(float(word))


class Vocabulary:
    """The words of one task's world, by source."""

    def __init__(self, instruction: str, history: ParameterHistory) -> None:
        self._instruction = Words(words_of(instruction))
        self._history = history
        self._everywhere = Words(self._instruction)
        self._by_target: defaultdict[str, Words] = defaultdict(Words)
        self._by_refusal: defaultdict[str, Words] = defaultdict(Words)
        self._accepted: defaultdict[Slot, dict[str, None]] = defaultdict(dict)

    @property
    def words(self) -> tuple[str, ...]:
        """All words, those of the instruction first."""
        return tuple(self._everywhere)

    def kinds(self) -> list[list[str]]:
        """The words grouped by shape, such as all names of people, without groups of one."""
        by_shape: defaultdict[str, list[str]] = defaultdict(list)
        for word, shape in self._everywhere.items():
            by_shape[shape].append(word)
        return [words for words in by_shape.values() if len(words) > 1]

    def record(self, tool: Tool, action: Action, observation: Observation) -> None:
        """Adds the words of the tool's observation; refusals often name what exists."""
        for word in words_of(observation.text)[:_MAX_WORDS]:
            self._everywhere.add(word)
            self._by_target[tool.target].add(word)
            if observation.is_error:
                self._by_refusal[tool.name].add(word)
        for name in text_parameters(tool):
            value, slot = action.parameters.get(name), (tool.target, name)
            if isinstance(value, str):
                self._history.record(slot, value, is_accepted=not observation.is_error)
                if not observation.is_error:
                    self._accepted[slot].setdefault(value)

    def draw(self, tool: Tool, rng: Random, *, is_blind: bool = False) -> dict[str, JsonValue]:
        """Random parameters for the tool; each optional one is omitted with probability 1/2.

        Texts are previously accepted words with probability 1/2, where there are any; otherwise preferably words
        from the app or the instruction, or (``is_blind``) any word with equal probability.
        """
        chosen = [name for name in tool.properties if name in tool.required or rng.random() < 0.5]
        return {name: self._value(tool, name, rng, is_blind) for name in chosen}

    def _value(self, tool: Tool, name: str, rng: Random, is_blind: bool) -> JsonValue:
        schema, slot = tool.properties[name], (tool.target, name)
        if not is_text(schema):
            return self._typed(schema, rng)
        accepted = self._accepted[slot] or self._history.accepted(slot, self._everywhere)
        if accepted and rng.random() < 0.5:
            return rng.choice(list(accepted))
        near = (self._by_refusal[tool.name], self._by_target[tool.target], self._instruction)
        sources = () if is_blind else rng.sample(near, rng.randint(0, len(near) - 1))
        for source in (*sources, self._everywhere):
            if words := self._history.plausible(slot, source):
                return rng.choice(words)
        return rng.choice(self.words or ("x",))

    def siblings(self, tool: Tool, name: str, value: JsonValue) -> list[JsonValue]:
        """Other values that the parameter may accept in place of this one."""
        schema = tool.properties.get(name)
        if isinstance(schema, dict) and isinstance(schema.get("enum"), list):
            return [option for option in schema["enum"] if option != value]  # type: ignore[union-attr]
        if isinstance(value, int) and not isinstance(value, bool):
            return [value + 1, value - 1]
        if not isinstance(value, str):
            return []
        shape = shape_of(value)
        same_shape = [word for word, word_shape in self._everywhere.items() if word_shape == shape]
        candidates = dict.fromkeys((*self._accepted[tool.target, name], *same_shape))
        return [word for word in candidates if word != value]

    def _typed(self, schema: JsonValue, rng: Random) -> JsonValue:
        """A value for the schema; any word where the schema is not supported."""
        fields = schema if isinstance(schema, dict) else {}
        for key in ("anyOf", "oneOf"):
            if isinstance(options := fields.get(key), list) and options:
                return self._typed(rng.choice(options), rng)
        if "const" in fields:
            return fields["const"]
        if isinstance(options := fields.get("enum"), list) and options:
            return rng.choice(options)
        kind = fields.get("type")
        match kind[0] if isinstance(kind, list) and kind else kind:
            case "boolean":
                return rng.random() < 0.5
            case "integer":
                return round(self._number(fields, rng))
            case "number":
                return self._number(fields, rng)
            case "array":
                return [self._typed(fields.get("items"), rng) for _ in range(rng.randint(1, 2))]
            case "object":
                parts = fields.get("properties")
                parts = parts if isinstance(parts, dict) else {}
                return {name: self._typed(part, rng) for name, part in parts.items()}
            case "null":
                return None
        return rng.choice(self.words or ("x",))

    def _number(self, schema: Mapping[str, JsonValue], rng: Random) -> float:
        """A number within the bounds; with probability 1/2 one from the world, where there is any."""
        low, high = bounds_of(schema)
        fitting = [number for number in self._everywhere.numbers if low <= number <= high]
        if fitting and rng.random() < 0.5:
            return rng.choice(fitting)
        return number_within(schema, rng.randint)

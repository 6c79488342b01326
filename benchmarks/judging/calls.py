"""The matcher of calls: gold calls fed back, and single mutations of which each has a known verdict."""

from collections import Counter
from collections.abc import Iterator
from random import Random

from upturn.records import Action, JsonValue, Result, Tool
from upturn.rewards.calls import GoldCall, match_calls

TYPES = ("string", "integer", "number", "boolean", "array")


def generated_calls(count: int, seed: int) -> Iterator[tuple[list[Tool], list[GoldCall], list[Action]]]:
    """Tools, gold calls and the right calls of messages with one to three parallel calls."""
    chance = Random(seed)
    for _ in range(count):
        tools, gold, calls = [], [], []
        for number in range(chance.randint(1, 3)):
            kinds = {f"p{index}": chance.choice(TYPES) for index in range(chance.randint(1, 4))}
            values = {name: _value(kind, chance) for name, kind in kinds.items()}
            properties: dict[str, JsonValue] = {name: {"type": kind} for name, kind in kinds.items()}
            tools.append(Tool("", f"tool_{number}", "A tool.", properties, tuple(kinds)))
            gold.append(GoldCall(f"tool_{number}", {name: (value,) for name, value in values.items()}))
            calls.append(Action("", f"tool_{number}", values))
        yield tools, gold, calls


def _value(kind: str, chance: Random) -> JsonValue:
    match kind:
        case "string":
            return chance.choice(["New York", "a.b", "x-1", "Ann's desk"])
        case "integer":
            return chance.randint(-9, 9)
        case "number":
            return chance.random()
        case "boolean":
            return chance.random() < 0.5
    return [chance.randint(0, 9), "x"]


def mutations(call: Action, chance: Random) -> Iterator[tuple[str, Action, str]]:
    """Name of each single mutation, the call after it, and the kind of fault that it must have; empty = none."""
    name = chance.choice(list(call.parameters))
    value, others = call.parameters[name], {key: item for key, item in call.parameters.items() if key != name}
    wrong: JsonValue = {"no": 1}
    yield "drop a required parameter", Action("", call.operation, others), "missing"
    yield "wrong type", Action("", call.operation, {**others, name: wrong}), "type"
    yield "extra argument", Action("", call.operation, {**call.parameters, "more": 1}), "unknown"
    yield "another name", Action("", f"{call.operation}_x", call.parameters), "name"
    if isinstance(value, str):
        spelled = value.upper().replace(" ", "_")
        yield "case and spaces", Action("", call.operation, {**others, name: spelled}), ""
        yield "another value", Action("", call.operation, {**others, name: f"{value} z"}), "value"
    if isinstance(value, int) and not isinstance(value, bool):
        yield "number as text", Action("", call.operation, {**others, name: str(value)}), "type"


def measure_calls(count: int, seed: int) -> list[Result]:
    """Gold calls fed back in another order, and single mutations by name."""
    chance, right = Random(seed), 0
    seen, as_known = Counter[str](), Counter[str]()
    for tools, gold, calls in generated_calls(count, seed):
        chance.shuffle(calls)
        right += match_calls(calls, gold, tools).is_correct
        at = chance.randrange(len(calls))
        for name, changed, expected in mutations(calls[at], chance):
            faults = match_calls([*calls[:at], changed, *calls[at + 1 :]], gold, tools).faults
            seen[name] += 1
            as_known[name] += [fault.kind for fault in faults] == ([expected] if expected else [])
    shares = {"gold calls fed back": (right, count)} | {name: (as_known[name], seen[name]) for name in seen}
    return [
        Result(f"calls: {name}", part / whole, "share", n=whole, bar="= 1", holds=part == whole)
        for name, (part, whole) in shares.items()
    ]

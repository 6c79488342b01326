"""Mutants of a goal state: exactly one mistake each, in the facts that differ from the initial state."""

from upturn.environments.validation.mutation import Difference, differences, mutants
from upturn.records import JsonValue


def test_every_changed_fact_is_undone_dropped_doubled_and_replaced() -> None:
    before: dict[str, JsonValue] = {"same": 1, "text": "old", "gone": 3}
    after: dict[str, JsonValue] = {"same": 1, "text": "new", "count": 2, "is_read": True, "people": ["ann"]}
    found = [(mutant.kind, "/".join(mutant.path), mutant.value) for mutant in mutants(before, after)]
    assert found == [
        ("undone", "text", "old"),
        ("replaced", "text", "newx"),
        ("dropped", "text", ""),
        ("doubled", "text", "new new"),
        ("undone", "gone", 3),
        ("dropped", "count", None),
        ("replaced", "count", 3),
        ("doubled", "count", 4),
        ("dropped", "is_read", None),
        ("replaced", "is_read", False),
        ("dropped", "people", None),
        ("dropped", "people/0", None),
        ("doubled", "people/0", "ann"),
        ("replaced", "people/0", "annx"),
        ("dropped", "people/0", ""),
        ("doubled", "people/0", "ann ann"),
    ]
    states = [mutant.state for mutant in mutants(before, after)]
    assert states[0] == {**after, "text": "old"}
    assert states[4] == {**after, "gone": 3}
    assert states[5] == {key: value for key, value in after.items() if key != "count"}
    assert (states[11], states[12]) == ({**after, "people": []}, {**after, "people": ["ann", "ann"]})


def test_numbers_in_text_get_near_misses_and_equal_states_have_no_mutants() -> None:
    values = [mutant.value for mutant in mutants({"cell": None}, {"cell": "41"})]
    assert values == [None, "42", "", "41 41"]
    assert list(mutants({"a": [1, {"b": 2}]}, {"a": [1, {"b": 2}]})) == []


def test_differences_are_as_deep_as_the_shapes_agree() -> None:
    left: JsonValue = {"a": {"b": [1, 2], "c": 1}, "d": [1], "e": 1}
    right: JsonValue = {"a": {"b": [1, 3], "c": 1}, "d": [1, 2], "e": True, "f": "x"}
    assert list(differences(left, right)) == [
        Difference(("a", "b", "1"), 3),
        Difference(("d",), [1, 2]),
        Difference(("e",), True),
        Difference(("f",), "x"),
    ]
    assert list(differences(left, left)) == []

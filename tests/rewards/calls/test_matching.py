"""Calls against gold calls: every single mutation has its verdict, and the graded reward has the paper's values."""

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from upturn.errors import FileFormatError
from upturn.records import Action, JsonValue, Tool
from upturn.rewards.calls import GoldCall, grade_calls, match_calls, read_gold_calls

TOOL = Tool(
    "",
    "book_flight",
    "Books a flight.",
    {
        "city": {"type": "string"},
        "seats": {"type": "integer"},
        "price": {"type": "float"},
        "days": {"type": "array", "items": {"type": "integer"}},
        "traveller": {"type": "dict", "properties": {"name": {"type": "string"}, "age": {"type": "integer"}}},
        "cabin": {"type": "string", "enum": ["economy", "business"]},
    },
    ("city", "seats"),
)
GOLD = read_gold_calls(
    [
        {
            "book_flight": {
                "city": ["New York", "NYC"],
                "seats": [2],
                "price": [300.0, ""],
                "days": [[1, 2], ""],
                "traveller": [{"name": ["Ann Lee", "Ann"], "age": [30, ""]}],
                "cabin": ["business", ""],
            }
        }
    ]
)
RIGHT: Mapping[str, JsonValue] = {
    "city": "New York",
    "seats": 2,
    "price": 300.0,
    "days": [1, 2],
    "traveller": {"name": "Ann", "age": 30},
    "cabin": "business",
}


def booking(**changes: Any) -> Action:
    """The right call with changes; ``...`` drops a parameter."""
    values = {**RIGHT, **changes}
    return Action("", "book_flight", {name: value for name, value in values.items() if value is not ...})


def verdict(*calls: Action, gold: tuple[GoldCall, ...] = GOLD) -> list[tuple[str, str]]:
    return [(fault.kind, fault.parameter) for fault in match_calls(calls, gold, [TOOL]).faults]


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"city": "new-york"},  # case, spaces and punctuation do not count
        {"city": "NEW_YORK."},
        {"city": "nyc"},
        {"price": ...},  # optional parameters
        {"price": ..., "days": ..., "cabin": ...},
        {"price": 300},  # a whole number is a number
        {"traveller": {"name": "ann lee"}},  # an optional part of an object
        {"traveller": {"age": 30, "name": "Ann Lee"}},
    ],
)
def test_accepted_variants_of_a_call(changes: dict[str, JsonValue]) -> None:
    match = match_calls([booking(**changes)], GOLD, [TOOL])
    assert match.is_correct and match.pairs == ((0, 0),)


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"city": ...}, ("missing", "city")),
        ({"seats": ...}, ("missing", "seats")),
        ({"traveller": ...}, ("missing", "traveller")),  # not required by the tool, but needed by the task
        ({"colour": "red"}, ("unknown", "colour")),
        ({"city": 7}, ("type", "city")),
        ({"seats": "2"}, ("type", "seats")),
        ({"seats": 2.0}, ("type", "seats")),
        ({"seats": True}, ("type", "seats")),
        ({"seats": None}, ("type", "seats")),
        ({"price": "300"}, ("type", "price")),
        ({"city": "Boston"}, ("value", "city")),
        ({"seats": 3}, ("value", "seats")),
        ({"price": 301}, ("value", "price")),
        ({"days": [2, 1]}, ("value", "days")),  # the order of a list counts
        ({"days": [1, 2, 3]}, ("value", "days")),
        ({"days": 1}, ("type", "days")),
        ({"traveller": {"name": "Bob"}}, ("value", "traveller")),
        ({"traveller": {"name": "Ann", "age": 30, "pet": "cat"}}, ("value", "traveller")),
        ({"cabin": "economy"}, ("value", "cabin")),
    ],
)
def test_single_mutations_have_their_verdict(changes: dict[str, JsonValue], fault: tuple[str, str]) -> None:
    assert verdict(booking(**changes)) == [fault]
    assert grade_calls([booking(**changes)], GOLD, [TOOL]).correct < 3


def test_calls_too_many_too_few_and_of_another_name() -> None:
    other = Action("", "book_train", dict(RIGHT))
    assert verdict(other) == [("name", "")]
    assert verdict() == [("not_called", "")]
    assert verdict(booking(), booking()) == [("not_needed", "")]
    assert verdict(other, booking()) == [("not_needed", "")]
    assert verdict(gold=()) == []  # the task needs no tool, and none was called
    assert verdict(booking(), gold=()) == [("not_needed", "")]


def test_without_a_tool_the_accepted_values_decide_on_types() -> None:
    (gold,) = read_gold_calls([{"f": {"x": [1, "one"]}}])
    values: list[JsonValue] = [1, "ONE", 2, "two", [1], True]
    kinds = [
        [fault.kind for fault in match_calls([Action("", "f", {"x": value})], [gold]).faults] for value in values
    ]
    assert kinds == [[], [], ["value"], ["value"], ["type"], ["type"]]


def test_a_value_of_the_type_of_an_accepted_one_is_no_wrong_type() -> None:
    """BFCL's variables: the gold call has a text where the schema has a number."""
    gold = GoldCall("book_flight", {"seats": ("seat_count",), "city": ("Rome",)})
    assert match_calls(
        [Action("", "book_flight", {"seats": "seat_count", "city": "Rome"})], [gold], [TOOL]
    ).is_correct


def test_types_are_compared_at_any_depth() -> None:
    tool = Tool("", "f", "", {"x": {"type": "array", "items": {"type": "array", "items": {"type": "integer"}}}})
    gold = read_gold_calls([{"f": {"x": [[[1, 2], [3]]]}}])
    wide = GoldCall("f", {"x": ({"any": 1},)})
    assert match_calls([Action("", "f", {"x": [[1, 2], [3]]})], gold, [tool]).is_correct
    (fault,) = match_calls([Action("", "f", {"x": [[1, "2"], [3]]})], [wide], [tool]).faults
    assert (fault.kind, fault.detail) == ("type", "[0][1]: string, not integer")


@given(st.permutations(range(4)), st.sets(st.integers(0, 3)))
def test_parallel_calls_match_in_any_order(order: list[int], wrong: set[int]) -> None:
    """A wrong value in some of four calls gives that many faults, whatever the order."""
    gold = read_gold_calls([{"f": {"x": [index], "y": [index % 2]}} for index in range(4)])
    calls = [Action("", "f", {"x": 9 if index in wrong else index, "y": index % 2}) for index in order]
    match = match_calls(calls, gold)
    assert [fault.kind for fault in match.faults] == ["value"] * len(wrong)
    assert {order[call] for call, gold_index in match.pairs if gold_index not in wrong} >= set(range(4)) - wrong


def test_the_assignment_is_optimal_where_the_first_fit_fails() -> None:
    """The first call fits both gold calls, the second only the first: a greedy match leaves it without one."""
    gold = (GoldCall("f", {"x": (1, 2)}), GoldCall("f", {"x": (1,)}))
    assert match_calls([Action("", "f", {"x": 1}), Action("", "f", {"x": 2})], gold).is_correct


_values = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.floats(-2, 2) | st.text("ab A.-'", min_size=1, max_size=4),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("kl"), inner, max_size=2),
    max_leaves=4,
)
_calls = st.lists(st.tuples(st.sampled_from("fg"), st.dictionaries(st.sampled_from("xyz"), _values)), max_size=3)


@given(_calls, st.randoms())
def test_gold_calls_fed_back_are_all_correct(calls: list[tuple[str, dict[str, JsonValue]]], random: Any) -> None:
    gold = [GoldCall(name, {key: (value,) for key, value in values.items()}) for name, values in calls]
    made = [Action("", name, values) for name, values in calls]
    random.shuffle(made)
    assert match_calls(made, gold).is_correct
    assert grade_calls(made, gold).total == pytest.approx(4.0)


def test_graded_reward_by_hand() -> None:
    """S = 1 + 1 + 2 = 4. One of two values wrong: 6 · 3 / 4 − 3 = 1.5; another name: −3; a third parameter: the
    Jaccard index of names is 2/3."""
    gold = [GoldCall("f", {"x": (1,), "y": (2,)})]
    rewards = [
        grade_calls([Action("", name, values)], gold)
        for name, values in (
            ("f", {"x": 1, "y": 2}),
            ("f", {"x": 1, "y": 3}),
            ("f", {"x": 1}),
            ("f", {"x": 1, "y": 2, "z": 3}),
            ("g", {"x": 1, "y": 2}),
        )
    ]
    assert [reward.correct for reward in rewards] == pytest.approx([3, 1.5, 0.75, 2.5, -3])
    assert [reward.share for reward in rewards] == pytest.approx([1, 5.5 / 7, 4.75 / 7, 6.5 / 7, 1 / 7])
    twice = grade_calls([Action("", "f", {"x": 1, "y": 2})] * 2, gold)
    assert twice.correct == pytest.approx(6 * 3.5 / 4 - 3)  # a call too many halves the part of the names
    unparsed = grade_calls([Action("", "f", {"x": 1, "y": 2})], gold, is_parsed=False)
    assert (unparsed.format, unparsed.correct, unparsed.share) == (0.0, -3.0, 0.0)
    assert grade_calls([], []).total == 4.0
    assert grade_calls([Action("", "f", {})], []).correct == -3.0


@pytest.mark.parametrize(
    "calls",
    [
        {"f": {"x": [1]}},
        ["f"],
        [{"f": {"x": 1}}],
        [{"f": {"x": []}}],
        [{"f": [1]}],
        [{"f": {}, "g": {}}],
        [{"f": {"x": [[{"a": list(range(99)), "b": list(range(99)), "c": [1, 2]}]]}}],
    ],
)
def test_malformed_gold_calls_are_refused(calls: object) -> None:
    with pytest.raises(FileFormatError, match="gold calls must be a list"):
        read_gold_calls(calls)


def test_gold_calls_need_a_value_for_each_parameter() -> None:
    with pytest.raises(ValueError, match=r"'f' needs accepted values for each parameter; it has none for: x, z"):
        GoldCall("f", {"x": (), "y": (1,)}, ("z",))

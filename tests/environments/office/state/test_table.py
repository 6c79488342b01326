"""Copy-on-write tables compared with dictionaries."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from upturn.environments.office.state.table import Change, Table

STEPS = st.lists(st.tuples(st.sampled_from("abcdef"), st.one_of(st.none(), st.integers(0, 3))), max_size=20)


def apply_steps(base: dict[str, int], steps: list[tuple[str, int | None]]) -> tuple[Table[int], dict[str, int]]:
    table, plain = Table(base), dict(base)
    for key, value in steps:
        if value is not None:
            table, plain[key] = table.with_items({key: value}), value
        elif key in plain:
            table = table.without(key)
            del plain[key]
    return table, plain


@given(st.dictionaries(st.sampled_from("abcd"), st.integers(0, 3)), STEPS)
def test_a_table_behaves_like_a_dictionary(base: dict[str, int], steps: list[tuple[str, int | None]]) -> None:
    table, plain = apply_steps(base, steps)

    assert dict(table) == plain
    assert [key in table for key in "abcdef"] == [key in plain for key in "abcdef"]
    assert len(table) == len(plain)
    assert list(table.values()) == [table[key] for key in table]
    assert [key for key in base if key in plain] == [key for key in table if key in base]


@given(st.dictionaries(st.sampled_from("abcd"), st.integers(0, 3)), STEPS, STEPS)
def test_changes_are_the_differences_of_two_dictionaries(
    base: dict[str, int], steps: list[tuple[str, int | None]], more: list[tuple[str, int | None]]
) -> None:
    before, plain_before = apply_steps(base, steps)
    after, plain_after = before, dict(plain_before)
    for key, value in more:
        if value is not None:
            after, plain_after[key] = after.with_items({key: value}), value
        elif key in plain_after:
            after = after.without(key)
            del plain_after[key]
    expected = {
        Change(key, plain_before.get(key), plain_after.get(key))
        for key in "abcdef"
        if plain_before.get(key) != plain_after.get(key)
    }

    assert set(after.changes_since(before)) == expected
    assert set(Table(dict(after)).changes_since(before)) == expected


def test_changing_a_copy_does_not_change_the_table() -> None:
    base = {"a": 1}
    table = Table(base)
    table.with_items({"a": 2}).without("a")

    assert dict(table) == {"a": 1} == base


def test_several_items_are_added_at_once() -> None:
    table = Table({"a": 1, "b": 2, "c": 3}).without("a").without("b").with_items({"b": 4, "d": 5, "a": 6})

    assert dict(table) == {"a": 6, "b": 4, "c": 3, "d": 5}
    assert "a" not in table.without("a")
    assert "z" not in table


def test_removing_an_unknown_id_is_an_error() -> None:
    with pytest.raises(KeyError, match="b"):
        Table({"a": 1}).without("b")
    with pytest.raises(KeyError, match="a"):
        Table({"a": 1}).without("a")["a"]

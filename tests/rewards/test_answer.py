"""Final answers are compared without what does not matter."""

import pytest

from upturn.rewards import is_same_answer, normalised_answer


@pytest.mark.parametrize(
    ("answer", "right"),
    [
        ("42", "42"),
        (" 42.\n", "42"),
        ("42.0", "42"),
        ("+1,236.50", "1236.5"),
        ("1e3", "1000"),
        ("-0", "0"),
        ("Room  B", "room b"),
        ('"room b."', "Room B"),
        ("**Yes**", "yes"),
        ("ﬁne", "fine"),
    ],
)
def test_the_same_answer_in_another_form(answer: str, right: str) -> None:
    assert is_same_answer(answer, right) and is_same_answer(right, answer)


@pytest.mark.parametrize(
    ("answer", "right"),
    [
        ("", ""),
        (" ", ""),
        ("42 43", "42"),
        ("it is 42", "42"),
        ("-42", "42"),
        ("1,23", "123"),
        ("42.5", "42"),
        ("a.b", "ab"),
        ("9e999999999", "9e999999998"),
    ],
)
def test_another_answer_is_another_answer(answer: str, right: str) -> None:
    assert not is_same_answer(answer, right)


def test_normalising_twice_changes_nothing() -> None:
    for text in ("1,236.50", "  A  b. ", "10", "'x'", "", ".", "1e5"):
        once = normalised_answer(text)
        assert normalised_answer(once) == once

"""Canaries: only written or earned ones may be shown; any other is a leak."""

from upturn.environments.validation.leak import earned_canaries, first_leak, leak_of, short_canaries
from upturn.records import Action, Observation, Trajectory, Turn

READ, GUESS = Action("sheet", "read", {"cell": "B3"}), Action("user", "answer", {"text": "total-4711"})
CANARIES = ("total-4711",)


def make_trajectory(*shown: str, actions: tuple[Action, ...]) -> Trajectory:
    turns = tuple(Turn(Observation(text), "", action) for text, action in zip(shown, actions, strict=False))
    return Trajectory("t", "task", "me@1", turns, Observation(shown[-1]), "finished", "rendered")


def test_canaries_shown_to_the_oracle_are_earned_by_the_same_operation() -> None:
    earned = earned_canaries(make_trajectory("ask", "it is total-4711", "done", actions=(READ, GUESS)), CANARIES)
    assert earned == {"total-4711": frozenset({"sheet.read"})}
    other = Action("sheet", "read", {"cell": "B4"})
    assert first_leak(make_trajectory("ask", "total-4711", actions=(other,)), CANARIES, earned) == ""
    listed = make_trajectory("ask", "total-4711", actions=(Action("sheet", "list"),))
    assert first_leak(listed, CANARIES, earned) == "'total-4711' is shown after sheet.list"


def test_text_written_by_the_agent_may_be_shown_only_afterwards() -> None:
    assert first_leak(make_trajectory("ask", "you said total-4711", actions=(GUESS,)), CANARIES, {}) == ""
    early = make_trajectory("find total-4711", "you said total-4711", actions=(GUESS,))
    assert first_leak(early, CANARIES, {}) == "'total-4711' is shown at the beginning"
    assert leak_of(GUESS, Observation("you said total-4711"), CANARIES, {}) == ""
    assert (
        leak_of(READ, Observation("no", "not_total-4711"), CANARIES, {}) == "'total-4711' is shown after sheet.read"
    )


def test_written_calls_count_as_written() -> None:
    call = ("sheet.read cell=B3",)
    assert leak_of(READ, Observation("cannot do sheet.read cell=B3"), call, {}) == ""
    assert leak_of(GUESS, Observation("try sheet.read cell=B3"), call, {}) != ""
    odd = Action("a sheet", "read", {"cell": "B3"})
    assert leak_of(odd, Observation("no target a sheet.read"), ("a sheet.read",), {}) == ""


def test_canaries_have_eight_characters_at_least() -> None:
    assert short_canaries(("1234567", "12345678")) == ["1234567"]

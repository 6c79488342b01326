"""Calls whose result was used, repeated calls, and rates of adoption with their denominators."""

from collections.abc import Sequence

from upturn.records import Action, Evaluation, Observation, Trajectory, Turn
from upturn.rewards.calls import adoption_of, call_uses, repeated_calls, times_made, use_bonus

SUCCESS = Evaluation("v", "t", "j", "desk/1", "success", (), {}, {}, 1.0)


def attempt(instruction: str, *steps: tuple[str, str], code: str = "ok") -> Trajectory:
    """Steps of a call, ``name value``, and its result; ``say`` is a message to the user."""
    shown = [instruction, *(result for _, result in steps)]
    turns = []
    for (call, _), text in zip(steps, shown, strict=False):
        name, _, value = call.partition(" ")
        action = Action("user", "answer", {"text": value}) if name == "say" else Action("desk", name, {"q": value})
        turns.append(Turn(Observation(text), call, action))
    return Trajectory("j", "t", "a@1", tuple(turns), Observation(shown[-1], code), "finished", "rendered")


def uses(trajectory: Trajectory) -> Sequence[tuple[str, bool, bool]]:
    return [(use.name, use.is_valid, use.is_used) for use in call_uses(trajectory)]


def test_a_result_is_used_where_something_later_has_what_was_new_in_it() -> None:
    used = attempt("Which room has Ann?", ("find Ann", "Ann is in room 417"), ("say 417", "done"))
    ignored = attempt("Which room has Ann?", ("find Ann", "Ann is in room 417"), ("say Ann is in her room", "done"))
    assert uses(used) == [("desk.find", True, True)]
    assert uses(ignored) == [("desk.find", True, False)]  # every word of the answer was known before
    sums = attempt("x", ("calc 617*2", "1234.50"), ("say it is $1,234.5", "done"))
    assert uses(sums) == [("desk.calc", True, True)]
    whole = attempt("x", ("calc 1000+234", "1234.0"), ("say it is 1234", "done"))
    assert uses(whole) == [("desk.calc", True, True)]
    chained = attempt("x", ("find Ann", "id m27"), ("open m27", "nothing"), ("say sorry", "done"))
    assert uses(chained) == [("desk.find", True, True), ("desk.open", True, False)]
    guessed = attempt("x", ("find m27", "m27 exists"), ("say m27", "done"))
    assert uses(guessed) == [("desk.find", True, False)]  # the call had it before its result


def test_rejected_calls_are_not_valid_and_messages_are_no_calls() -> None:
    failed = attempt("x", ("say hello", "hi"), ("find Ann", "no such person 99"), code="not_found")
    assert uses(failed) == [("desk.find", False, False)]
    unparsed = Trajectory(
        "j", "t", "a@1", (Turn(Observation("x"), "?", None),), Observation("no"), "finished", "rendered"
    )
    assert call_uses(unparsed) == () == repeated_calls(unparsed)


def test_more_calls_do_not_raise_the_bonus() -> None:
    once = attempt("x", ("find Ann", "room 417"), ("say 417", "done"))
    farmed = attempt(
        "x", ("find Ann", "room 417"), ("find Bob", "room 12"), ("find Eve", "room 99"), ("say 417", "done")
    )
    failure = Evaluation("v", "t", "j", "desk/1", "failure", (), {}, {}, 0.0)
    missing = Evaluation("v", "t", "j", "desk/1", "missing", (), {}, {}, None)
    assert use_bonus(once, SUCCESS) == 1.0
    assert use_bonus(farmed, SUCCESS) == 1.0
    assert use_bonus(attempt("x", ("find Ann", "room 417"), ("say she is there", "done")), SUCCESS) == 0.0
    assert use_bonus(attempt("x", ("say 4", "done")), SUCCESS) == 0.0
    assert use_bonus(once, failure) == 0.0
    assert use_bonus(once, missing) is None


def test_repeated_calls_are_those_with_an_equal_result() -> None:
    same = attempt("x", ("look a", "busy"), ("look a", "busy"), ("look b", "busy"), ("look a", "busy"))
    polled = attempt("x", ("look a", "busy"), ("look a", "ready"), ("look a", "busy"))
    assert repeated_calls(same) == (1, 3)
    assert repeated_calls(polled) == (2,)


def test_equal_calls_are_counted_by_their_last_result() -> None:
    polled = attempt("x", ("look a", "busy"), ("look b", "busy"), ("look a", "busy"), ("look a", "ready"))
    results = polled.results
    assert [times_made(polled.turns[: end + 1], results[end]) for end in range(4)] == [1, 1, 2, 1]
    assert times_made((), results[0]) == 0


def test_adoption_states_its_denominators() -> None:
    """Five episodes; a calculator helps in three: used, called without use, not called. Of the other two, one calls
    it without need and one calls nothing."""
    used = attempt("x", ("calc 6*7", "42"), ("say 42", "done"))
    unused = attempt("x", ("calc 6*7", "42"), ("say 41", "done"))
    silent = attempt("x", ("say 42", "done"))
    counted = adoption_of(
        [(used, ["desk.calc"]), (unused, ["desk.calc"]), (silent, ["desk.calc"]), (used, []), (silent, ())]
    )
    rates = {result.name: (result.value, result.n) for result in counted.results()}
    assert rates == {
        "adoption of all episodes": (3 / 5, 5),
        "adoption of eligible episodes": (2 / 3, 3),
        "useful adoption of eligible episodes": (1 / 3, 3),
        "precision": (2 / 3, 3),
        "irrelevance": (1 / 2, 2),
        "desk.calc: adoption of all episodes": (3 / 5, 5),
        "desk.calc: adoption of eligible episodes": (2 / 3, 3),
        "desk.calc: useful adoption of eligible episodes": (1 / 3, 3),
    }


def test_another_tool_than_the_one_that_helps_is_no_adoption() -> None:
    other = attempt("x", ("search 42", "found 17"), ("say 17", "done"))
    counted = adoption_of([(other, ["desk.calc"])])
    assert (counted.calling, counted.eligible, counted.adopting, counted.useful) == (1, 1, 0, 0)
    assert [(tool.tool, tool.episodes, tool.eligible, tool.adopting) for tool in counted.tools] == [
        ("desk.calc", 0, 1, 0),
        ("desk.search", 1, 0, 0),
    ]
    assert adoption_of([]).results() == []


def test_episodes_of_which_nothing_is_known_count_among_all_only() -> None:
    used = attempt("x", ("calc 6*7", "42"), ("say 42", "done"))
    counted = adoption_of([(used, None), (used, ["desk.calc"])])
    assert [(result.name, result.n) for result in counted.results()][:4] == [
        ("adoption of all episodes", 2),
        ("adoption of eligible episodes", 1),
        ("useful adoption of eligible episodes", 1),
        ("precision", 1),
    ]
    assert counted.tools[0].episodes == 2 and counted.tools[0].eligible == 1

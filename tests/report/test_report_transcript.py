"""Transcripts pair every action with its observation; state changes name exactly the differences."""

from hypothesis import given
from hypothesis import strategies as st

from upturn.records import Evaluation, GateResult, JsonValue, Observation, Trajectory, Turn
from upturn.report import StateChange, TranscriptTurn, state_changes, transcript

STATE: dict[str, JsonValue] = {"mail": {"inbox": [{"id": 1, "read": False}], "sent": []}, "clock": 9}


def trajectory() -> Trajectory:
    return Trajectory(
        id="t1",
        task_id="k1",
        agent_version="nano@1",
        turns=(
            Turn(observation=Observation("read my mail"), text="mail.read 1", action=None),
            Turn(observation=Observation("no such mail", code="unknown_id"), text="user.finish", action=None),
        ),
        final_observation=Observation("bye"),
        outcome="finished",
        origin="sampled",
        final_state={"mail": {"inbox": [{"id": 1, "read": True}], "sent": [{"to": "é"}]}, "clock": 9},
    )


def test_each_action_is_shown_with_its_observation() -> None:
    shown = transcript(trajectory(), None, stage="before")
    assert shown.turns == (
        TranscriptTurn("mail.read 1", "no such mail", "unknown_id"),
        TranscriptTurn("user.finish", "bye"),
    )
    assert (shown.agent_version, shown.outcome, shown.stage) == ("nano@1", "finished", "before")


def test_missing_evaluation_is_shown_as_missing_and_unrecorded_state_as_unknown() -> None:
    shown = transcript(trajectory(), None, stage="before")
    assert shown.verdict == "missing"
    assert shown.changes is None


def test_verdict_and_gates_come_from_the_evaluation() -> None:
    gate = GateResult(name="sent", is_passed=True)
    evaluation = Evaluation("e1", "k1", "t1", "office/1", "success", (gate,), {}, {}, 1.0)
    shown = transcript(trajectory(), evaluation, stage="after", initial_state=STATE)
    assert shown.verdict == "success"
    assert shown.gates == (gate,)
    assert shown.changes == (
        StateChange("mail.inbox.0.read", "false", "true"),
        StateChange("mail.sent.0", None, '{"to": "é"}'),
    )


def test_removed_keys_and_items_have_no_after() -> None:
    assert state_changes({"a": 1, "b": [1, 2]}, {"b": [1]}) == (
        StateChange("a", "1", None),
        StateChange("b.1", "2", None),
    )


def test_a_change_of_type_is_a_change_even_when_values_compare_equal() -> None:
    assert state_changes({"a": 1, "b": [1]}, {"a": True, "b": {"0": 1}}) == (
        StateChange("a", "1", "true"),
        StateChange("b", "[1]", '{"0": 1}'),
    )


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)
states = st.dictionaries(st.text(max_size=3), json_values, max_size=3)


@given(states)
def test_equal_states_have_no_differences(state: dict[str, JsonValue]) -> None:
    assert state_changes(state, state) == ()


@given(states, states)
def test_swapping_the_states_swaps_before_and_after(
    first: dict[str, JsonValue], second: dict[str, JsonValue]
) -> None:
    there = {(change.before, change.after) for change in state_changes(first, second)}
    back = {(change.after, change.before) for change in state_changes(second, first)}
    assert there == back


def test_a_state_of_changes_is_shown_as_changes() -> None:
    final: dict[str, JsonValue] = {
        "changes": {"mail/m1/folder": "archive", "mail/+": [{"to": "ann"}]},
        "before": {"mail/m1/folder": "inbox"},
        "message": {"kind": "finish"},
    }
    assert state_changes({"changes": {}, "before": {}, "message": None}, final) == (
        StateChange("mail/m1/folder", '"inbox"', '"archive"'),
        StateChange("mail/+", None, '[{"to": "ann"}]'),
        StateChange("message", "null", '{"kind": "finish"}'),
    )

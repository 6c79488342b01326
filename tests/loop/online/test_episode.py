"""The episode of a call, and the call that it continues."""

from collections.abc import Sequence

from upturn.dialects import Message, ModelRequest, Reasoning, Text, ToolDefinition, ToolResult
from upturn.loop.online import Client, EpisodeTracker, Known, Placement
from upturn.loop.online.episode import has_open_tool_loop, has_signed_thought

CLIENT = Client("default")


def request(*texts: str, tools: Sequence[ToolDefinition] = ()) -> ModelRequest:
    """Texts of user and assistant in turn."""
    roles = ("user", "assistant")
    messages = [Message(roles[number % 2], (Text(text),)) for number, text in enumerate(texts)]  # type: ignore[arg-type]
    return ModelRequest("default", tuple(messages), tuple(tools))


def answered(tracker: EpisodeTracker, asked: ModelRequest, call: str, answer: str, **named: str) -> Placement:
    """Places the call and remembers its answer."""
    placement = tracker.place(asked, CLIENT, call, name=named.get("name"), agent=named.get("agent", ""))
    known = Known(call, placement.episode, "ann@1")
    tracker.remember(
        placement, known, (Text(answer),), message_count=len(asked.messages), agent=named.get("agent", "")
    )
    return placement


def test_a_call_by_itself_is_an_episode_of_its_own() -> None:
    placement = EpisodeTracker().place(request("hello"), CLIENT, "call-1")
    assert (placement.episode, placement.is_named, placement.extends, placement.fork_cause) == (
        "call-1",
        False,
        None,
        "",
    )


def test_a_continued_conversation_belongs_to_its_episode() -> None:
    tracker = EpisodeTracker()
    answered(tracker, request("hello"), "call-1", "hi")
    placement = tracker.place(request("hello", "hi", "how are you?"), CLIENT, "call-2")
    assert placement.episode == "call-1"
    assert placement.extends == Known("call-1", "call-1", "ann@1")
    assert placement.shared == 2  # its new messages begin after the answer


def test_the_longest_known_conversation_is_continued() -> None:
    tracker = EpisodeTracker()
    answered(tracker, request("a"), "call-1", "b")
    answered(tracker, request("a", "b", "c"), "call-2", "d")
    placement = tracker.place(request("a", "b", "c", "d", "e"), CLIENT, "call-3")
    assert placement.extends is not None
    assert placement.extends.call == "call-2"
    assert placement.shared == 4


def test_another_answer_than_ours_continues_nothing() -> None:
    tracker = EpisodeTracker()
    answered(tracker, request("hello"), "call-1", "hi")
    assert tracker.place(request("hello", "HI", "how are you?"), CLIENT, "call-2").episode == "call-2"


def test_other_clients_have_other_conversations() -> None:
    tracker = EpisodeTracker()
    answered(tracker, request("hello"), "call-1", "hi")
    for other in (Client("other"), Client("default", "key")):
        assert tracker.place(request("hello", "hi", "?"), other, "call-2").extends is None


def test_a_named_episode_is_scoped_to_the_key() -> None:
    tracker = EpisodeTracker()
    placements = [
        tracker.place(request("x"), client, "c", name="s") for client in (CLIENT, Client("default", "k1"))
    ]
    assert [placement.episode for placement in placements] == ["s", "k1/s"]


def test_causes_of_new_conversations_in_an_episode() -> None:
    tracker, tool = EpisodeTracker(), ToolDefinition("find")
    first = answered(tracker, request("a", "x", "b"), "call-1", "c", name="s")
    assert first.fork_cause == ""
    cases = [
        ("new_conversation", request("a"), {"agent": "helper"}),
        ("new_conversation", request("other"), {}),
        ("tools", request("a", "x", "b", tools=[tool]), {}),
        ("shortened_history", request("a"), {}),
        ("edited_history", request("a", "y", "b"), {}),
    ]
    for cause, asked, named in cases:
        placement = tracker.place(asked, CLIENT, "call-2", name="s", agent=named.get("agent", ""))
        assert placement.fork_cause == cause


def test_old_conversations_are_looked_up_and_the_longest_is_taken() -> None:
    tracker = EpisodeTracker()
    digest = tracker.remember(
        tracker.place(request("a"), CLIENT, "call-1"), Known("call-1", "e", "ann@1"), (Text("b"),), message_count=1
    )

    def find(tenant: str, digests: Sequence[str]) -> tuple[str, Known] | None:
        assert tenant == "default"
        return (digest, Known("call-1", "e", "ann@1")) if digest in digests else None

    placement = EpisodeTracker(find).place(request("a", "b", "c"), CLIENT, "call-2")
    assert (placement.episode, placement.shared) == ("e", 2)


def test_the_memory_is_bounded() -> None:
    tracker = EpisodeTracker(max_conversations=2)
    for number in range(3):
        answered(tracker, request(f"question {number}"), f"call-{number}", "answer")
    assert tracker.place(request("question 0", "answer", "?"), CLIENT, "x").extends is None
    assert tracker.place(request("question 2", "answer", "?"), CLIENT, "x").extends is not None


def test_open_tool_loops_and_signed_thoughts_are_recognised() -> None:
    result = Message("tool", (ToolResult("1", (Text("4"),)),))
    thought = Message("assistant", (Reasoning("hm", "sig"),))
    assert has_open_tool_loop([result])
    assert not has_open_tool_loop([result, thought])
    assert has_signed_thought([thought])
    assert not has_signed_thought([Message("assistant", (Reasoning("hm"),))])

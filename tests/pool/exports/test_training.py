import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from upturn.dialects import (
    Conversation,
    Image,
    Message,
    ModelAnswer,
    Part,
    Text,
    Toolbox,
    ToolCall,
    ToolDefinition,
    ToolResult,
)
from upturn.errors import ConfigError
from upturn.pool import Choice, Pool, PoolRecord, Selection, take_snapshot
from upturn.pool.exports import FORMATS, ChatSource, TrainingExport
from upturn.records import (
    MODEL_CALL,
    Action,
    AgentVersion,
    Call,
    CallContent,
    Evaluation,
    EvaluationVerdict,
    Feedback,
    Observation,
    Task,
    Tool,
    Trajectory,
    Turn,
    fields_json,
)

RECORDED = {
    "sft": {"messages", "tools"},
    "prompt-completion": {"prompt", "completion", "tools"},
    "dpo": {"prompt", "chosen", "rejected", "tools"},
    "kto": {"prompt", "completion", "label", "tools"},
    "grpo": {"prompt"},
    "verl": {"data_source", "prompt", "ability", "reward_model", "extra_info"},
    "transitions": {"state", "action", "reward", "next_state", "is_last", "is_terminal", "logprob", "propensity"},
}
"""Columns that TRL 1.16 (docs/source/dataset_formats.md) and verl 0.6 (docs/preparation/prepare_data.rst) read."""

ALL = Choice()
MOVE = Tool("mail", "move", "Moves a mail.", {"id": {"type": "integer"}}, ("id",))
ANSWER = Tool("user", "answer", "Ends the task.", {"text": {"type": "string"}}, ("text",), text_parameter="text")


def export(
    pool: Pool, name: str, *, choice: Choice = ALL, split: Any = "train", **options: Any
) -> tuple[list[Any], dict[str, int]]:
    """The rows of a format, and what is omitted by cause."""
    source = ChatSource(pool, tenant="default", choice=choice, **options)
    made, file = TrainingExport(source, name, split=split), io.BytesIO()
    made.write(file, ".jsonl")
    rows = [json.loads(line) for line in file.getvalue().splitlines()]
    assert made.rows == len(rows)
    assert all(row.keys() == FORMATS[name].columns.keys() for row in rows)
    return rows, {cause: count for cause, count in made.omitted.items() if count}


def user(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


def assistant(text: str) -> dict[str, str]:
    return {"role": "assistant", "content": text}


def call(number: int, name: str, **arguments: Any) -> dict[str, Any]:
    function = {"name": name, "arguments": arguments}
    return {"id": f"call_{number}", "type": "function", "function": function}


def result(number: int, text: str) -> dict[str, str]:
    return {"role": "tool", "tool_call_id": f"call_{number}", "content": text}


def talk(
    name: str,
    answer: str,
    *,
    task: str = "t",
    prompt: str = "Hi",
    verdict: EvaluationVerdict = "success",
    score: float | None = 1.0,
    split: Any = "train",
    tenant: str = "default",
) -> tuple[Task, Trajectory, Evaluation]:
    """A recorded chat of one answer."""
    turn = Turn(Observation(prompt), answer, Action("user", "message"))
    return (
        Task(task, prompt, "talk", "imported", split=split, tenant=tenant),
        Trajectory(name, task, "small@1", (turn,), Observation(""), "finished", "rendered"),
        Evaluation(f"e-{name}", task, name, "chat/1", verdict, (), {}, {}, score),
    )


@pytest.mark.parametrize("name", FORMATS)
def test_the_columns_are_those_that_trainers_read(name: str) -> None:
    assert FORMATS[name].columns.keys() >= RECORDED[name]
    assert set(FORMATS) == set(RECORDED)


def test_a_chat_of_words_keeps_its_words(pool: Pool) -> None:
    turns = (
        Turn(Observation("[system]\nBe brief.\n\n[user]\nHi\n\nthere"), "Hello!", Action("user", "message")),
        Turn(Observation("How are\nyou?"), "Fine.", Action("user", "message")),
    )
    points = talk("a", "")
    pool.append(points[0], replace(points[1], turns=turns, final_observation=Observation("bye")), points[2])
    rows, omitted = export(pool, "sft")
    system = {"role": "system", "content": "Be brief."}
    messages = [system, user("Hi\n\nthere"), assistant("Hello!"), user("How are\nyou?"), assistant("Fine.")]
    about = {"id": "a", "task_id": "t", "family": "talk", "agent": "small@1", "score": 1.0}
    assert (rows, omitted) == ([{"messages": messages, "tools": None, **about}], {})
    rows, _ = export(pool, "prompt-completion")
    assert [(row["prompt"], row["completion"]) for row in rows] == [
        (messages[:2], messages[2:3]),
        (messages[:4], messages[4:]),
    ]


def test_several_calls_of_a_message_have_their_results(pool: Pool) -> None:
    turns = (
        Turn(Observation("Sum?"), "…", Action("", "add", {"a": 1}, thought="Let me see.")),
        Turn(Observation("first"), "", Action("", "add", {"b": [2]}), call=1),
        Turn(Observation("[tool]\nsecond\n\n[user]\nWell?"), "3", Action("user", "message")),
    )
    points = talk("a", "")
    pool.append(points[0], replace(points[1], turns=turns), points[2])
    rows, _ = export(pool, "sft")
    assert rows[0]["messages"] == [
        user("Sum?"),
        {**assistant("Let me see."), "tool_calls": [call(0, "add", a=1), call(1, "add", b=[2])]},
        result(0, "first"),
        result(1, "second"),
        user("Well?"),
        assistant("3"),
    ]


def test_an_environments_actions_are_calls_of_its_tools(pool: Pool) -> None:
    turns = (
        Turn(Observation("Move it."), "mail.move id=3", Action("mail", "move", {"id": 3}, thought="why")),
        Turn(Observation("no mail", "not_found"), "??", None),
        Turn(Observation("error", "syntax"), "user.answer text=done", Action("user", "answer", {"text": "done"})),
    )
    version = AgentVersion("nano", "1", "local_model", "nano", prompt="You move mails.")
    task = Task("t", "Move it.", "mail", "desk")
    trajectory = Trajectory("a", "t", "nano@1", turns, Observation(""), "finished", "sampled")
    pool.append(version, task, trajectory, Evaluation("e", "t", "a", "desk/1", "success", (), {}, {}, 1.0))
    rows, _ = export(pool, "sft", tools_of={"desk": (MOVE, ANSWER)}.__getitem__)
    assert rows[0]["messages"] == [
        {"role": "system", "content": "You move mails."},
        user("Move it."),
        {**assistant("why"), "tool_calls": [call(0, "mail.move", id=3)]},
        result(0, "error not_found: no mail"),
        assistant("??"),
        user("error syntax: error"),
        assistant("done"),
    ]
    schema = {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]}
    function = {"name": "mail.move", "parameters": schema, "description": "Moves a mail."}
    assert json.loads(rows[0]["tools"])[0] == {"type": "function", "function": function}
    without, _ = export(pool, "sft")
    assert without[0]["messages"] == rows[0]["messages"]
    assert without[0]["tools"] is None


def stored_call(
    name: str, sent: list[Message], *answer: Part, extends: str | None = None, tools: str = ""
) -> list[PoolRecord]:
    return [
        Call(name, "default", "e", "", "chat", "small@1", "answered", extends=extends),
        CallContent(
            name,
            "default",
            fields_json(Conversation(tuple(sent))),
            tools=tools,
            answer=fields_json(ModelAnswer(name, "small", answer, "stop")),
        ),
    ]


def sealed(*turns: Turn) -> list[PoolRecord]:
    task = Task("episode:default:e", "Hi", "talk", MODEL_CALL, episode="e")
    trajectory = Trajectory("a", task.id, "small@1", turns, Observation(""), "finished", "rendered")
    return [task, trajectory, Evaluation("v", task.id, "a", "desk/1", "success", (), {}, {}, 1.0)]


def test_an_episodes_calls_give_each_conversation_as_it_was_sent(pool: Pool) -> None:
    hi = Message("user", (Text("Hi"),))
    answered = Message("tool", (ToolResult("x7", (Text("9"),)),))
    tools = fields_json(Toolbox((ToolDefinition("look", "", {"type": "object", "properties": {}}),)))
    pool.append(
        *stored_call("c1", [hi], Text("Wait."), ToolCall("x7", "look", '{"at": 1}'), tools=tools),
        *stored_call("c2", [answered], Text("9!"), extends="c1"),
        *stored_call("c3", [answered], Text("nine"), extends="c1"),
        *stored_call("c4", [Message("user", (Text("Title?"),))], Text("Nine")),
        *sealed(Turn(Observation("Hi"), "Wait.", Action("user", "answer"))),
    )
    first = {
        **assistant("Wait."),
        "tool_calls": [{"id": "x7", "type": "function", "function": {"name": "look", "arguments": {"at": 1}}}],
    }
    nine = {"role": "tool", "tool_call_id": "x7", "content": "9"}
    rows, _ = export(pool, "sft")
    assert [row["messages"] for row in rows] == [
        [user("Hi"), first, nine, assistant("9!")],
        [user("Hi"), first, nine, assistant("nine")],
        [user("Title?"), assistant("Nine")],
    ]
    assert json.loads(rows[1]["tools"])[0]["function"]["name"] == "look"
    steps, _ = export(pool, "prompt-completion")
    assert [row["completion"][0] for row in steps] == [first, assistant("9!"), assistant("nine"), assistant("Nine")]


def test_an_episode_whose_contents_are_deleted_is_read_from_its_turns(pool: Pool) -> None:
    calls = stored_call("c1", [Message("user", (Text("Hi"),))], Text("Hello."))
    turns = Turn(Observation("Hi"), "Hello.", Action("user", "answer"))
    pool.append(calls[0], *sealed(turns))
    assert export(pool, "sft")[0][0]["messages"] == [user("Hi"), assistant("Hello.")]


def test_what_has_no_words_is_omitted_and_counted(pool: Pool) -> None:
    pool.append(*talk("empty", "", task="t1"))
    pool.append(*talk("held", "secret", task="t2", split="heldout"))
    pool.append(*talk("failed", "no", task="t3", verdict="failure", score=0.0))
    pool.append(*stored_call("c1", [Message("user", (Image(url="http://x"),))], Text("A cat.")))
    pool.append(*sealed())
    assert export(pool, "sft") == ([], {"no_words": 1, "heldout": 1, "not_successful": 1, "images": 1})


def test_a_pair_is_what_two_sides_said_after_the_same_words(pool: Pool) -> None:
    for name, score in (("worst", 0.0), ("middle", 0.5), ("best", 1.0)):
        pool.append(*talk(name, f"{name}!", verdict="success" if score == 1.0 else "failure", score=score))
    pool.append(*talk("alone", "?", task="t1"))
    pool.append(*talk("same1", "?", task="t2"))
    pool.append(*talk("same2", "!", task="t2"))
    pool.append(*talk("unknown", "?", task="t3", verdict="missing", score=None))
    pool.append(*talk("words1", "?", task="t4"))
    pool.append(*talk("words2", "?", task="t4", verdict="failure", score=0.0)[1:])
    pool.append(*talk("other1", "?", task="t5"))
    other = talk("other2", "?", task="t5", prompt="Hello", verdict="failure", score=0.0)
    pool.append(*other[1:])
    rows, omitted = export(pool, "dpo")
    assert len(rows) == 1
    assert rows[0]["prompt"] == [user("Hi")]
    assert (rows[0]["chosen"], rows[0]["rejected"]) == ([assistant("best!")], [assistant("worst!")])
    assert (rows[0]["id"], rows[0]["score"], rows[0]["rejected_id"], rows[0]["rejected_score"]) == (
        "best",
        1.0,
        "worst",
        0.0,
    )
    assert omitted == {
        "tasks_with_one_trajectory": 1,
        "tasks_with_equal_scores": 1,
        "unjudged": 1,
        "same_words": 1,
        "different_prompts": 1,
    }


def test_a_correction_is_preferred_to_scores(pool: Pool) -> None:
    pool.append(*talk("good", "good"))
    pool.append(*talk("bad", "bad", verdict="failure", score=0.0)[1:])
    pool.append(*talk("better", "better", verdict="missing", score=None)[1:])
    pool.append(Feedback("f", "trajectory", "good", "correction", 1.0, refers_to="better"))
    pool.append(Feedback("g", "trajectory", "good", "correction", 1.0, refers_to="gone"))
    rows, omitted = export(pool, "dpo")
    assert [(row["id"], row["rejected_id"], row["score"]) for row in rows] == [("better", "good", None)]
    assert omitted == {"corrections_of_others": 1, "unjudged": 1}


def test_thumbs_are_preferred_to_verdicts(pool: Pool) -> None:
    pool.append(*talk("a", "a"))
    pool.append(*talk("b", "b", verdict="failure", score=0.0)[1:])
    pool.append(*talk("c", "c")[1:])
    pool.append(*talk("d", "d", verdict="missing", score=None)[1:])
    pool.append(*(Feedback(f"f{number}", "trajectory", "c", "thumbs", -1.0) for number in range(2)))
    rows, omitted = export(pool, "kto")
    labels = [(row["prompt"], row["completion"], row["label"]) for row in rows]
    assert labels == [([user("Hi")], [assistant(name)], name == "a") for name in "abc"]
    assert omitted == {"unjudged": 1}


def test_prompts_are_one_per_task_of_a_split(pool: Pool) -> None:
    pool.append(*talk("a", "a"))
    pool.append(*talk("b", "b", verdict="failure", score=0.0)[1:])
    pool.append(*talk("held", "secret", task="h", prompt="Held?", split="heldout"))
    rows, omitted = export(pool, "grpo")
    assert [(row["prompt"], row["task_id"]) for row in rows] == [([user("Hi")], "t")]
    assert json.loads(rows[0]["task"])["id"] == "t"
    assert omitted == {"heldout": 1}
    train, _ = export(pool, "verl")
    assert train == [
        {
            "data_source": "upturn/imported",
            "prompt": [user("Hi")],
            "ability": "talk",
            "reward_model": {"style": "rule", "ground_truth": rows[0]["task"]},
            "extra_info": {"index": 0, "split": "train", "task_id": "t", "level": 1, "tools": None},
        }
    ]
    test, omitted = export(pool, "verl", split="heldout")
    assert [(row["prompt"], row["extra_info"]["split"]) for row in test] == [([user("Held?")], "test")]
    assert omitted == {"train": 2}
    with pytest.raises(ConfigError, match=r"held-out tasks are never trained on.*only grpo, verl can"):
        export(pool, "sft", split="heldout")


def test_a_selection_a_snapshot_and_unknown_names(pool: Pool) -> None:
    pool.append(*talk("a", "a"))
    pool.append(*talk("b", "b", verdict="failure", score=0.0)[1:])
    snapshot = take_snapshot(pool, tenants=["default"])
    pool.append(*talk("c", "c")[1:])

    def exported(choice: Choice) -> list[str]:
        return [row["id"] for row in export(pool, "sft", choice=choice)[0]]

    assert exported(Choice()) == ["a", "c"]
    assert exported(Choice(Selection(verdicts=("failure",)))) == ["b"]
    assert exported(Choice(Selection(min_score=0.0))) == ["a", "b", "c"]
    assert exported(Choice(Selection(limit_per_family=1))) == ["c"]
    assert exported(Choice(snapshot=snapshot.id)) == ["a", "b"]
    with pytest.raises(ConfigError, match="unknown format 'rlhf'; known: sft, prompt-completion, dpo"):
        export(pool, "rlhf")
    with pytest.raises(ConfigError, match="omit one of them"):
        exported(Choice(Selection(families=("talk",)), snapshot.id))


@pytest.mark.parametrize("name", FORMATS)
def test_no_row_has_personal_data_or_words_of_another_tenant(pool: Pool, name: str) -> None:
    pool.append(*talk("a", "Ask ann@corp.de.", prompt="Who? Me: bob@corp.de"))
    pool.append(*talk("b", "No.", prompt="Who? Me: bob@corp.de", verdict="failure", score=0.0)[1:])
    pool.append(*talk("x0", "canary", task="x", tenant="eve"))
    pool.append(*talk("x1", "canary!", task="x", tenant="eve", verdict="failure", score=0.0))
    pool.append(Feedback("f", "trajectory", "x0", "thumbs", 1.0, tenant="eve", comment="canary"))
    text = json.dumps(export(pool, name)[0])
    assert "<EMAIL>" in text
    assert "canary" not in text
    assert "corp" not in text
    assert "corp" in json.dumps(export(pool, name, is_anonymised=False)[0])


def test_rows_are_written_as_they_are_read(tmp_path: Path) -> None:
    """The first rows are in the file before the last trajectories are read."""
    with Pool.open(tmp_path / "pool.db") as pool:
        for number in range(3):
            pool.append(*talk(f"a{number}", "x" * 1_000)[bool(number) :])
        made = TrainingExport(ChatSource(pool, tenant="default"), "sft")
        sizes: list[int] = []
        file = io.BytesIO()
        made.write(file, ".jsonl", lambda: sizes.append(file.tell()))
        assert sizes[0] == 0
        assert 0 < sizes[1] < sizes[2]
        with pytest.raises(ConfigError, match=r"unknown kind of file '\.csv'; known: \.jsonl, \.parquet"):
            made.write(file, ".csv")

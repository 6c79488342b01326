"""Endpoint agents with native tool calls and in text, against a scripted model behind every dialect."""

import asyncio
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

import pytest

from tests.agents.model_server import Script, serving
from upturn.agents import EndpointAgent, Recorder, Reply, RolloutRequest, Setting, build, rollout
from upturn.agents.call_form import NativeForm
from upturn.agents.context import Budget, parameters_of
from upturn.agents.endpoint import OfferedTools, ToolUse
from upturn.config import Limits
from upturn.dialects import Message, ModelAnswer, ModelRequest, Text, TokenUsage, ToolCall, ToolResult
from upturn.environments import draw_tasks, tools_of, verify
from upturn.environments.office import OfficeKit
from upturn.errors import ConfigError, ModelError
from upturn.models import ChatEndpoint, GenerationRequest, RetryPolicy, write_call
from upturn.records import Action, AgentVersion, ModelUsage, Observation, Task, Tool, Trajectory, Turn

KIT = OfficeKit()
DIALECT_NAMES = ("chat", "responses", "messages")
LIST = Tool("mail", "list", "Lists mails.", {"folder": {"type": "string"}, "ids": {"type": "array"}}, ("folder",))
ANSWER = Tool("user", "answer", "Answers.", {"text": {"type": "string"}}, ("text",))
TOOLS = (LIST, ANSWER)
LISTED = {"type": "object", "properties": dict(LIST.properties), "required": ["folder"]}
ANSWERED = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
SYSTEM = (
    "Be brief.\n\nYou act by calling tools, and see what happened before you go on, until you are done. A message "
    "without a call does nothing."
)


def office_task(family: str = "mail_item") -> Task:
    return next(islice(draw_tasks(KIT, seed=3, split="train", families=[family]), 1))


def oracle_actions(task: Task) -> list[Action]:
    policy, actions = KIT.oracle(task), list[Action]()
    while (action := policy(task, [Turn(Observation(""), "", None)] * len(actions), Observation(""))) is not None:
        actions.append(action)
    return actions


def call_of(action: Action, number: int) -> ToolCall:
    return ToolCall(
        f"c{number}",
        f"{action.target}__{action.operation}",
        json.dumps(dict(action.parameters), ensure_ascii=False),
    )


def answered(*parts: Any, finish: Any = "tool_calls") -> ModelAnswer:
    return ModelAnswer("a", "m", parts, finish, TokenUsage(100, 10, 80, cache_write=12, cache_write_1h=4))


def version(url: str, **parameters: Any) -> AgentVersion:
    return AgentVersion("remote", "base", "endpoint", model=url, model_name="m", parameters=parameters)


def play(task: Task, script: Script, **parameters: Any) -> Trajectory:
    """One rollout of the task in the office."""
    with serving(script) as server:
        agent = build(version(server.url, **parameters), limits=Limits(), tools=tools_of(KIT))
        setting = Setting("k", agent, "remote@base", None)
        return asyncio.run(rollout(RolloutRequest(task, 0, 0), KIT.environment, setting))


def single(task: Task) -> Script:
    """The oracle, one native call a message."""
    actions = oracle_actions(task)

    def script(request: ModelRequest) -> ModelAnswer:
        done = sum(isinstance(part, ToolResult) for message in request.messages for part in message.parts)
        return answered(call_of(actions[done], done))

    return script


def together(task: Task) -> Script:
    """The oracle, all calls in one message."""
    actions = oracle_actions(task)
    return lambda _: answered(Text("All of it."), *map(call_of, actions, range(len(actions))))


def written(style: Callable[[Action], str]) -> Callable[[Task], Script]:
    """The oracle as text; steps are counted by the assistant's messages."""

    def of(task: Task) -> Script:
        actions = oracle_actions(task)

        def script(request: ModelRequest) -> ModelAnswer:
            done = sum(message.role == "assistant" for message in request.messages)
            return answered(Text(style(actions[done])), finish="stop")

        return script

    return of


def react(action: Action) -> str:
    name, given = f"{action.target}_{action.operation}", json.dumps(dict(action.parameters))
    return f"Thought: I go on.\nAction: {name}\nAction Input: {given}\nObservation: 42"


@pytest.mark.parametrize("dialect", DIALECT_NAMES)
@pytest.mark.parametrize(
    ("oracle", "parameters", "repairs"),
    [
        (single, {}, set()),
        (together, {}, set()),
        (written(write_call), {"tools": "text"}, set()),
        (written(react), {"tools": "text"}, {"near_name", "react", "text_after"}),
        (written(write_call), {}, {"in_text"}),
    ],
    ids=["single", "parallel", "text", "react", "call in text"],
)
def test_the_oracle_behind_each_dialect_solves_an_office_task(
    oracle: Callable[[Task], Script], parameters: dict[str, str], repairs: set[str], dialect: str
) -> None:
    task = office_task()
    trajectory = play(task, oracle(task), dialect=dialect, **parameters)
    assert trajectory.error == ""
    assert verify(KIT.verifier, task, trajectory).is_success
    assert [turn.action.name for turn in trajectory.turns if turn.action] == [
        "outlook.search",
        "outlook.read",
        "user.answer",
    ]
    assert {repair for turn in trajectory.turns for repair in turn.repairs} == repairs
    is_parallel = oracle is together
    assert [turn.call for turn in trajectory.turns] == ([0, 1, 2] if is_parallel else [0, 0, 0])
    calls = 1 if is_parallel else 3
    assert (trajectory.usage.prompt_tokens, trajectory.usage.written_tokens) == (100 * calls, 10 * calls)
    assert trajectory.cached_tokens == 80 * calls
    written = (12 * calls, 4 * calls) if dialect == "messages" else (0, 0)
    assert (trajectory.cache_write_tokens, trajectory.cache_write_1h_tokens) == written


def test_usage_stands_on_the_first_turn_of_a_message() -> None:
    task = office_task()
    one_by_one, at_once = play(task, single(task)), play(task, together(task))
    of_a_call = ModelUsage(100, 10, 80)
    assert [turn.usage for turn in one_by_one.turns] == [of_a_call] * 3
    assert [turn.usage for turn in at_once.turns] == [of_a_call, None, None]
    assert not one_by_one.is_usage_estimated


def test_a_server_that_counts_no_tokens_is_estimated() -> None:
    def script(_: ModelRequest) -> ModelAnswer:
        call = call_of(Action("user", "answer", {"text": "634"}), 0)
        return replace(answered(Text("x" * 40), call), usage=TokenUsage())

    trajectory = play(office_task(), script)
    (turn,) = trajectory.turns
    assert turn.usage is not None
    assert (turn.usage.is_estimated, trajectory.is_usage_estimated) == (True, True)
    assert turn.usage.written_tokens == -(-(40 + len('user__answer{"text": "634"}')) // 4)
    assert 8_000 < turn.usage.prompt_tokens < 10_000  # the office's tools have some 35 kB as records
    assert trajectory.usage.prompt_tokens == turn.usage.prompt_tokens


def test_calls_after_the_end_are_dropped_and_counted() -> None:
    task = office_task()
    actions = [*oracle_actions(task), Action("user", "finish")]
    trajectory = play(task, lambda _: answered(*map(call_of, actions, range(4))))
    assert (trajectory.outcome, len(trajectory.turns), trajectory.dropped_calls) == ("finished", 3, 1)


def converse(
    script: Script,
    observations: Sequence[Observation],
    *,
    dialect: str = "chat",
    use: ToolUse = "auto",
    tools: Sequence[Tool] = TOOLS,
    before: Sequence[Turn] = (),
    context: Budget | None = None,
) -> tuple[list[Turn], list[dict[str, Any]]]:
    """The agent's turns on these observations, after ``before``, and the bodies of its requests."""
    session = Recorder(None, GenerationRequest((), 0, (), 1.0, "s", (0, 0), 0))
    with serving(script) as server:
        agent = EndpointAgent(
            ChatEndpoint(server.url, "m", dialect=dialect, retry=RetryPolicy(retries=0)),
            prompt="Be brief.",
            temperature=0.5,
            max_tokens=60,
            offered=OfferedTools(tools, use),
            context=context,
        )

        async def act() -> list[Turn]:
            turns = list(before)
            for observation in observations:
                reply = await agent.act(tuple(turns), observation, session)
                turns.append(turn_of(observation, reply))
            return turns

        return asyncio.run(act()), server.bodies


def turn_of(observation: Observation, reply: Reply) -> Turn:
    return Turn(
        observation,
        reply.text,
        reply.action,
        call=reply.call,
        repairs=reply.repairs,
        refusal=reply.refusal,
        message=reply.message,
    )


def tool_entry(name: str, description: str, schema: object) -> dict[str, object]:
    return {"type": "function", "function": {"name": name, "parameters": schema, "description": description}}


CHAT_ANSWER = {
    "role": "assistant",
    "content": "I look.",
    "reasoning_content": "Which folder?",
    "reasoning_details": [{"type": "reasoning.encrypted", "data": "sig"}],
    "refusal": None,
    "annotations": [],
    "tool_calls": [
        {"id": "c1", "type": "function", "function": {"name": "mail__list", "arguments": '{"folder":"in"}'}},
        {
            "id": "c2",
            "type": "function",
            "function": {"name": "mail__list", "arguments": '{"folder": "out"}'},
            "extra_content": {"google": {"thought_signature": "s2"}},
        },
    ],
}
RESPONSES_ITEMS: list[dict[str, Any]] = [
    {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "sig"},
    {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "mail__list", "arguments": '{"folder":"in"}'},
    {
        "type": "function_call",
        "id": "fc_2",
        "call_id": "c2",
        "name": "mail__list",
        "arguments": '{"folder": "out"}',
    },
]
BLOCKS: list[dict[str, Any]] = [
    {"type": "thinking", "thinking": "Which folder?", "signature": "sig"},
    {"type": "redacted_thinking", "data": "xyz"},
    {"type": "text", "text": "I look."},
    {"type": "tool_use", "id": "c1", "name": "mail__list", "input": {"folder": "in"}},
    {"type": "tool_use", "id": "c2", "name": "mail__list", "input": {"folder": "out"}},
]
ANSWERS: dict[str, dict[str, Any]] = {
    "chat": {"choices": [{"message": CHAT_ANSWER, "finish_reason": "tool_calls"}]},
    "responses": {"status": "completed", "output": RESPONSES_ITEMS},
    "messages": {"type": "message", "content": BLOCKS, "stop_reason": "tool_use"},
}
SECOND_BODIES: dict[str, dict[str, Any]] = {
    "chat": {
        "model": "m",
        "messages": [
            {"role": "system", "content": SYSTEM},
            {"role": "user", "content": "Do it."},
            {name: value for name, value in CHAT_ANSWER.items() if value not in (None, [])},
            {"role": "tool", "tool_call_id": "c1", "content": "three mails"},
            {"role": "tool", "tool_call_id": "c2", "content": "error not_found: no folder out"},
        ],
        "max_tokens": 60,
        "temperature": 0.5,
        "tools": [
            tool_entry("mail__list", "Lists mails.", LISTED),
            tool_entry("user__answer", "Answers.", ANSWERED),
        ],
    },
    "responses": {
        "model": "m",
        "input": [
            {"type": "message", "role": "system", "content": [{"type": "input_text", "text": SYSTEM}]},
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Do it."}]},
            *RESPONSES_ITEMS,
            {"type": "function_call_output", "call_id": "c1", "output": "three mails"},
            {"type": "function_call_output", "call_id": "c2", "output": "error not_found: no folder out"},
        ],
        "store": False,
        "max_output_tokens": 60,
        "temperature": 0.5,
        "tools": [
            {
                "type": "function",
                "name": "mail__list",
                "description": "Lists mails.",
                "parameters": LISTED,
                "strict": False,
            },
            {
                "type": "function",
                "name": "user__answer",
                "description": "Answers.",
                "parameters": ANSWERED,
                "strict": False,
            },
        ],
        "tool_choice": "auto",
        "parallel_tool_calls": True,
    },
    "messages": {
        "model": "m",
        "max_tokens": 60,
        "system": SYSTEM,
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "Do it."}]},
            {"role": "assistant", "content": BLOCKS},
            {
                "role": "user",
                "content": [
                    {
                        "type": "tool_result",
                        "tool_use_id": "c1",
                        "content": [{"type": "text", "text": "three mails"}],
                    },
                    {
                        "type": "tool_result",
                        "tool_use_id": "c2",
                        "content": [{"type": "text", "text": "error not_found: no folder out"}],
                        "is_error": True,
                    },
                ],
            },
        ],
        "temperature": 0.5,
        "tools": [
            {"name": "mail__list", "input_schema": LISTED, "description": "Lists mails."},
            {"name": "user__answer", "input_schema": ANSWERED, "description": "Answers."},
        ],
        "tool_choice": {"type": "auto"},
    },
}
OBSERVED = [Observation("Do it."), Observation("three mails"), Observation("no folder out", code="not_found")]
"""Of the first message, between its calls, and after them."""


@pytest.mark.parametrize("dialect", DIALECT_NAMES)
def test_the_second_request_repeats_the_message_unchanged_with_its_results(dialect: str) -> None:
    # between the two calls of a message there is no request, so the observation after it is the first result
    turns, bodies = converse(lambda _: ANSWERS[dialect], [*OBSERVED], dialect=dialect)
    assert [turn.call for turn in turns] == [0, 1, 0]
    assert bodies[1] == SECOND_BODIES[dialect]
    assert turns[1].action == Action("mail", "list", {"folder": "out"})
    assert turns[0].action is not None
    assert (
        turns[0].action.thought
        == {
            "chat": "Which folder?\nI look.",
            "responses": "",
            "messages": "Which folder?\nI look.",
        }[dialect]
    )


def test_a_history_of_another_model_is_written_anew_with_its_thoughts() -> None:
    before = [
        Turn(OBSERVED[0], "mail.list folder=in", Action("mail", "list", {"folder": "in"}, "I look.")),
        Turn(OBSERVED[1], "mail.list folder=out", Action("mail", "list", {"folder": "out"}), call=1),
        Turn(OBSERVED[2], "well", None),
    ]
    stored = json.dumps(["chat", "other", ["c1", "c2"], [CHAT_ANSWER]])
    for message in ("", stored):
        turns = [replace(before[0], message=message), *before[1:]]
        _, bodies = converse(
            lambda _: answered(ToolCall("c", "user__answer", '{"text": "3"}')), [Observation("?")], before=turns
        )
        assert bodies[0]["messages"][2:] == [
            {
                "role": "assistant",
                "content": "I look.",
                "tool_calls": [
                    {
                        "id": identity,
                        "type": "function",
                        "function": {"name": "mail__list", "arguments": json.dumps({"folder": folder})},
                    }
                    for identity, folder in (("000000000", "in"), ("000000001", "out"))
                ],
            },
            {"role": "tool", "tool_call_id": "000000000", "content": "three mails"},
            {"role": "tool", "tool_call_id": "000000001", "content": "error not_found: no folder out"},
            {"role": "assistant", "content": "well"},
            {"role": "user", "content": "?"},
        ]


@pytest.mark.parametrize(
    ("name", "arguments", "finish", "refusal"),
    [
        ("mail__list", '{"folder": ', "tool_calls", "unclosed: "),
        ("mail__list", '["in"]', "tool_calls", "bad_arguments: the arguments are a JSON object"),
        ("mail__list", '{"folder": "in"}{"folder": "out"}', "tool_calls", "bad_arguments: something follows"),
        ("mail__list", '{"folder": "a", "folder": "b"}', "tool_calls", "duplicate_key: "),
        ("mail list!", "{}", "tool_calls", "bad_name: 'mail list!' is no function's name"),
        ("mail__list", '{"folder": "in"}', "length", "truncated: "),
    ],
)
def test_a_malformed_call_is_named_and_the_others_are_made(
    name: str, arguments: str, finish: str, refusal: str
) -> None:
    good = ToolCall("c1", "mail__list", '{"folder": "x"}')
    turns, bodies = converse(lambda _: answered(good, ToolCall("c2", name, arguments), finish=finish), OBSERVED)
    assert turns[0].action == Action("mail", "list", {"folder": "x"})
    assert turns[1].action is None
    assert turns[1].refusal.startswith(refusal)
    assert repr(name) in turns[1].refusal
    sent = bodies[1]["messages"][2]["tool_calls"][1]["function"]["arguments"]
    assert isinstance(json.loads(sent), dict)  # servers parse the history's arguments
    assert [line["tool_call_id"] for line in bodies[1]["messages"][3:]] == ["c1", "c2"]


@pytest.mark.parametrize(
    ("name", "arguments", "parameters", "repairs"),
    [
        ("mail.list", "{'folder': None}", {"folder": None}, ("near_name", "python_constants", "single_quotes")),
        (
            "functions.Mail-List",
            '"{\\"folder\\": \\"in\\"}"',
            {"folder": "in"},
            ("arguments_as_text", "near_name"),
        ),
        ("list", '```json\n{"folder": "in"}\n```', {"folder": "in"}, ("fenced", "near_name")),
        ("mail__list", "", {}, ()),
    ],
)
def test_an_almost_right_call_is_made_and_its_repairs_are_recorded(
    name: str, arguments: str, parameters: dict[str, Any], repairs: tuple[str, ...]
) -> None:
    ((turn,), _) = converse(lambda _: answered(ToolCall("c1", name, arguments)), OBSERVED[:1])
    assert turn.action == Action("mail", "list", parameters)
    assert turn.repairs == repairs


def test_an_unknown_tool_reaches_the_environment_which_names_it() -> None:
    trajectory = play(office_task(), lambda _: answered(ToolCall("c", "outlook__relocate", "{}")))
    assert trajectory.turns[1].observation.is_error
    assert "relocate" in trajectory.turns[1].observation.text


def test_equal_ids_are_replaced() -> None:
    turns, bodies = converse(lambda _: answered(*[ToolCall("c", "mail__list", '{"folder": "x"}')] * 2), OBSERVED)
    assert turns[0].message == ""
    assert [line["tool_call_id"] for line in bodies[1]["messages"][3:]] == ["000000000", "000000001"]


def test_text_without_a_call_is_an_error_unless_a_tool_takes_it() -> None:
    takes = Tool("user", "answer", "Answers.", ANSWER.properties, ("text",), text_parameter="text")
    for tools, action in ((TOOLS, None), ((LIST, takes), Action("user", "answer", {"text": "Three mails."}))):
        turns, bodies = converse(
            lambda _: answered(Text("Three mails."), finish="stop"), [OBSERVED[0], Observation("no")], tools=tools
        )
        assert turns[0].action == action
        assert turns[0].refusal == ("" if action else "no_call: the message calls no function")
        assert bodies[1]["messages"][2:] == [
            {"role": "assistant", "content": "Three mails."},
            {"role": "user", "content": "no"},
        ]


@pytest.mark.parametrize(
    ("text", "finish", "name"),
    [
        ('{"name": "Bob", "arguments": {}}', "stop", "user.answer"),  # no tool's name: an answer that is JSON
        ('{"id": 5}', "stop", "user.answer"),
        ('{"name": "mail.list", "arguments": {"folder": "in"}}', "stop", "mail.list"),
        ('{"name": "mail.list", "arguments": {"folder": ', "stop", None),
        ("It is", "length", None),
        ("", "stop", None),
    ],
)
@pytest.mark.parametrize("use", ["native", "text"])
def test_text_is_a_call_of_an_offered_tool_or_the_answer(
    text: str, finish: str, name: str | None, use: ToolUse
) -> None:
    takes = Tool("user", "answer", "Answers.", ANSWER.properties, ("text",), text_parameter="text")
    ((turn,), _) = converse(
        lambda _: answered(Text(text), finish=finish), OBSERVED[:1], tools=(LIST, takes), use=use
    )
    assert (turn.action.name if turn.action else None) == name
    assert turn.repairs == (("in_text",) if name == "mail.list" and use == "native" else ())


def test_an_empty_answer_is_an_error_and_the_history_stays_valid() -> None:
    turns, bodies = converse(lambda _: answered(finish="stop"), OBSERVED[:2], dialect="messages")
    assert turns[0].refusal == "no_call: the message calls no function"
    assert bodies[1]["messages"][1]["content"] == [{"type": "text", "text": "(empty message)"}]


def test_a_server_that_refuses_tools_gets_them_as_text_with_an_example() -> None:
    notes: list[str] = []

    def script(request: ModelRequest) -> ModelAnswer | tuple[int, str]:
        return (
            (400, "this model does not support tools") if request.tools else answered(Text("mail.list folder=in"))
        )

    session = Recorder(None, GenerationRequest((), 0, (), 1.0, "s", (0, 0), 0))
    with serving(script) as server:
        agent = build(version(server.url), limits=Limits(), tools=TOOLS, note=notes.append, api_key="secret")
        assert isinstance(agent, EndpointAgent)
        for _ in range(2):
            reply = asyncio.run(agent.act((), OBSERVED[0], session))
            assert reply.action == Action("mail", "list", {"folder": "in"})
    assert ["tools" in body for body in server.bodies] == [True, False, False]
    assert notes == [
        f"the model gets its tools as text (agents.tools): {server.url}/chat/completions refused model 'm': HTTP "
        "400: this model does not support tools"
    ]
    system = server.bodies[1]["messages"][0]["content"]
    assert system.startswith(
        'Your actions, with JSON Schemas of their parameters:\n{"name": "mail.list", "description": "Lists mails."'
    )
    assert system.endswith("until you are done.\nFor example: mail.list folder=FOLDER")


def test_native_tools_are_not_replaced_by_text() -> None:
    with pytest.raises(ModelError, match="does not support tools"):
        converse(lambda _: (400, "the model does not support tools"), OBSERVED[:1], use="native")


def test_a_server_that_has_called_tools_is_not_asked_for_text() -> None:
    answers: list[Any] = [answered(ToolCall("c", "mail__list", '{"folder": "x"}')), (400, "bad tool_call_id")]
    with pytest.raises(ModelError, match="bad tool_call_id"):
        converse(lambda _: answers.pop(0), OBSERVED[:2])


def test_without_tools_the_conversation_is_text() -> None:
    turns, bodies = converse(lambda _: answered(Text("mail.list folder=in")), OBSERVED[:1], tools=())
    assert turns[0].action == Action("mail", "list", {"folder": "in"})
    assert "tools" not in bodies[0]
    assert "example" not in bodies[0]["messages"][0]["content"]


def test_several_actions_in_text_are_turns_with_numbered_results() -> None:
    text = "I look.\nmail.list folder=in\nmail.list folder=out"
    turns, bodies = converse(lambda _: answered(Text(text)), OBSERVED, use="text")
    assert [turn.text for turn in turns[:2]] == ["I look.\nmail.list folder=in\n", "mail.list folder=out"]
    assert bodies[1]["messages"][2:] == [
        {"role": "assistant", "content": text},
        {"role": "user", "content": "[1] three mails\n\n[2] error not_found: no folder out"},
    ]


def test_a_budget_counts_the_tools_and_keeps_calls_with_their_results() -> None:
    budget = Budget(500, window_turns=2, observation_tokens=110, summary_tokens=12, low_mark=0.6)
    call = ToolCall("c", "mail__list", '{"folder": "x"}')
    seen = [Observation("Do it."), *[Observation("z" * 200)] * 20]
    _, bodies = converse(lambda _: answered(call, ToolCall("d", "mail__list", "{}")), seen, context=budget)
    for body in bodies:
        called = [call["id"] for line in body["messages"] for call in line.get("tool_calls", ())]
        assert called == [line["tool_call_id"] for line in body["messages"] if line["role"] == "tool"]
    lengths = [len(json.dumps(body)) for body in bodies]
    assert max(lengths) < 3 * 500 * 1.7  # bytes: JSON around the texts that the estimate leaves out
    with pytest.raises(ConfigError, match="prompt and tools take"):
        converse(lambda _: answered(call), seen, context=Budget(300, 2, 110, 12, 0.6))


def test_the_key_is_sent_in_the_form_of_the_dialect() -> None:
    seen = {}
    for dialect in DIALECT_NAMES:
        with serving(lambda _: answered(Text("x"), finish="stop")) as server:
            endpoint = ChatEndpoint(server.url, "m", dialect=dialect, api_key="secret")
            request = ModelRequest("", (Message("user", (Text("Hi"),)),))
            asyncio.run(endpoint.answer(request))
        names = ("authorization", "x-api-key", "anthropic-version")
        seen[dialect] = {name: server.headers[0].get(name) for name in names}
    bearer = {"authorization": "Bearer secret", "x-api-key": None, "anthropic-version": None}
    messages = {"authorization": None, "x-api-key": "secret", "anthropic-version": "2023-06-01"}
    assert seen == {"chat": bearer, "responses": bearer, "messages": messages}


@pytest.mark.parametrize(
    ("parameters", "tools", "problem"),
    [
        ({"dialect": "grpc"}, TOOLS, "dialect must be one of chat, responses, messages, got 'grpc'"),
        ({"tools": True}, TOOLS, "tools must be 'auto', 'native' or 'text', got True"),
        ({"tools": "native"}, (), "tools = 'native' has no effect: the environment describes no tools"),
        (parameters_of(Budget(500, 2, 110, 12, 0.6)), tools_of(KIT), "prompt and tools take"),
    ],
)
def test_unusable_parameters_are_refused(parameters: dict[str, Any], tools: Sequence[Tool], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        build(version("http://localhost:1/v1", **parameters), limits=Limits(), tools=tools)


def test_every_tool_of_the_office_has_a_name_that_servers_accept() -> None:
    form = NativeForm("", tools_of(KIT), dialect="chat", model="m")
    names = [tool.name for tool in form.definitions]
    assert len(set(names)) == len(names) == len(KIT.tools)
    assert all(name.replace("_", "").isalnum() and len(name) <= 64 for name in names)
    assert "outlook__move" in names

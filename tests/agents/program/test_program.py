"""Programs as agents: their model calls pass through a server of their own, their answer is the action."""

import asyncio
import json
import os
import shutil
import sys
import textwrap
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.agents.model_server import Served, serving
from tests.agents.test_native_calls import KIT, answered, call_of, office_task, oracle_actions
from upturn.agents import Attempt, Job, ProgramAgent, RolloutRequest, Setting, build, rollout, run_rollouts
from upturn.agents.program import (
    CapturedCall,
    CapturedCalls,
    ForkedFunction,
    ProgramCommand,
    ProgramModels,
    captured_calls,
    endpoint_model,
    program_command,
)
from upturn.agents.program.captured_call import stored_calls
from upturn.config import Limits, SandboxLimits, UpstreamConfig
from upturn.dialects import DIALECTS, Message, ModelRequest, Text, TokenUsage
from upturn.environments import tools_of, verify
from upturn.errors import ConfigError
from upturn.models import write_call
from upturn.models.upstreams import Endpoint
from upturn.records import Action, AgentVersion, ModelUsage, Outcome, Tool, Trajectory, from_fields

TASK = office_task()
ACTIONS = oracle_actions(TASK)


def run(program: Any, served: Served, *, dialect: Any = "chat", **limits: Any) -> Trajectory:
    """One rollout of the task in the office."""
    endpoint = Endpoint(served.url, "m", UpstreamConfig(dialect=dialect, retries=0), "secret")
    agent = ProgramAgent(program, ProgramModels("m", endpoint_model(endpoint)), tools_of(KIT))
    setting = Setting("k", agent, "mine@1", None, limits=Limits(**limits))
    return asyncio.run(rollout(RolloutRequest(TASK, 0, 0), KIT.environment, setting))


def echo(request: ModelRequest) -> Any:
    """A model that repeats the last message."""
    (text,) = request.messages[-1].parts
    assert isinstance(text, Text)
    return answered(Text(text.text), finish="stop")


def ask(attempt: Attempt, text: str, path: str = "/chat/completions", **more: Any) -> httpx2.Response:
    headers = {"authorization": f"Bearer {attempt.api_key}"}
    body = {"model": "any", "messages": [{"role": "user", "content": text}], **more}
    return httpx2.post(f"{attempt.base_url}{path}", json=body, headers=headers, timeout=10)


def step(attempt: Attempt, action: Action) -> dict[str, Any]:
    """Executes the action in the environment."""
    body = {"name": f"{action.target}__{action.operation}", "arguments": dict(action.parameters)}
    headers = {"authorization": f"Bearer {attempt.api_key}"}
    result: dict[str, Any] = httpx2.post(f"{attempt.environment_url}/step", json=body, headers=headers).json()
    return result


def test_a_function_works_on_the_whole_task() -> None:
    attempts: list[Attempt] = []
    seen: list[dict[str, Any]] = []

    def program(attempt: Attempt) -> None:
        attempts.append(attempt)
        for action in ACTIONS:
            ask(attempt, write_call(action))
            seen.append(step(attempt, action))

    with serving(echo) as served:
        trajectory = run(program, served)
    assert verify(KIT.verifier, TASK, trajectory).is_success
    assert trajectory.outcome == "finished"
    assert [body["model"] for body in served.bodies] == ["m"] * 3
    assert {headers["authorization"] for headers in served.headers} == {"Bearer secret"}
    assert (trajectory.usage.prompt_tokens, trajectory.usage.written_tokens) == (300, 30)
    assert trajectory.cached_tokens == 240
    assert trajectory.origin == "rendered"
    assert [turn.action for turn in trajectory.turns] == list(ACTIONS)
    assert [turn.text for turn in trajectory.turns] == list(map(write_call, ACTIONS))
    for number, calls in enumerate(captured_calls(trajectory)):
        text = write_call(ACTIONS[number])
        message, answer = Message("user", (Text(text),)), Message("assistant", (Text(text),))
        assert calls == [
            CapturedCall((message,), answer, TokenUsage(100, 10, 80), tools=(), model="any", is_own=True)
        ]
    assert [result["is_over"] for result in seen] == [False, False, True]
    assert [result["observation"] for result in seen] == [result.text for result in trajectory.results]
    (attempt,) = attempts
    assert attempt.task == TASK.instruction
    names = [definition["function"]["name"] for definition in attempt.tools]  # type: ignore[call-overload, index]
    assert len(names) == len(KIT.tools)
    assert "outlook__search" in names


def test_the_environment_answers_what_it_shows_and_refuses_what_is_over() -> None:
    shown: list[Any] = []

    def program(attempt: Attempt) -> None:
        headers = {"authorization": f"Bearer {attempt.api_key}"}
        shown.append(httpx2.get(attempt.environment_url, headers=headers).json())
        shown.append(httpx2.get(attempt.environment_url).status_code)
        wrong: list[Any] = [
            {"name": 5},
            {"arguments": {}},
            {"name": "x", "args": {}},
            {"name": "x", "arguments": [1]},
            {"name": "x", "text": "x"},
            {"text": 5},
        ]
        for raw in (*wrong, []):
            answer = httpx2.post(f"{attempt.environment_url}/step", json=raw, headers=headers)
            shown.append((answer.status_code, answer.json()["error"]["message"]))
        shown.append(step(attempt, Action("no", "tool", {})))
        for text in ("no.other", "I am done."):
            answer = httpx2.post(f"{attempt.environment_url}/step", json={"text": text}, headers=headers)
            shown.append(answer.json())
        shown.append(step(attempt, Action("user", "finish", {})))
        shown.append(step(attempt, Action("user", "finish", {})))

    with serving(echo) as served:
        trajectory = run(program, served)
    first, denied, *refused, unknown, other, spoken, last, late = shown
    assert first["observation"] == TASK.instruction
    assert (first["is_over"], len(first["tools"])) == (False, len(KIT.tools))
    assert denied == 401
    assert [status for status, _ in refused] == [400] * 7
    assert refused[2][1].startswith("'args' is no field here; arguments, name, text are")
    results = [turn.observation for turn in trajectory.turns[1:]]
    assert [answer["code"] for answer in (unknown, other, spoken)] == [result.code for result in results]
    assert other["observation"] == f"error {results[1].code}: {results[1].text}"
    assert not any(answer["is_over"] for answer in (unknown, other, spoken))
    assert [turn.action for turn in trajectory.turns[1:3]] == [Action("no", "other", {}), None]
    assert last["is_over"]
    assert late["error"]["code"] == "task_over"
    assert [turn.text for turn in trajectory.turns] == ["", "no.other", "I am done.", ""]


def test_completions_without_a_step_are_turns_of_their_own() -> None:
    def program(attempt: Attempt) -> str:
        ask(attempt, "Think about it.")
        ask(attempt, "Think again.")
        return "user.finish"

    with serving(echo) as served:
        trajectory = run(program, served)
    assert [turn.observation.text for turn in trajectory.turns] == [TASK.instruction, "Think again."]
    assert [turn.text for turn in trajectory.turns] == ["Think about it.", "Think again."]
    assert trajectory.turns[0].action == Action("user", "say", {"text": "Think about it."})
    assert trajectory.turns[1].action == Action("user", "finish", {})
    assert trajectory.outcome == "finished"


def test_a_program_may_end_its_attempt_itself() -> None:
    def program(attempt: Attempt) -> str:
        headers = {"authorization": f"Bearer {attempt.api_key}"}
        url = attempt.environment_url.removesuffix("/environment")
        httpx2.post(f"{url}/v1/episodes/any/finish", json={"answer": "user.finish"}, headers=headers)
        time.sleep(60)
        return "user.never"

    with serving(echo) as served:
        trajectory = run(program, served)
    assert (trajectory.outcome, trajectory.turns[0].action) == ("finished", Action("user", "finish", {}))


def test_the_turns_of_an_attempt_are_limited() -> None:
    statuses: list[int] = []

    def program(attempt: Attempt) -> None:
        statuses.extend(ask(attempt, "More").status_code for _ in range(5))

    with serving(echo) as served:
        trajectory = run(program, served, max_turns=2)
    assert (trajectory.outcome, len(trajectory.turns)) == ("step_limit", 2)
    assert statuses[:3] in ([200, 200], [200, 200, 409])


@pytest.mark.parametrize("dialect", ["chat", "responses", "messages"])
@pytest.mark.parametrize("theirs", ["chat", "responses", "messages"])
def test_a_program_may_speak_another_dialect_than_the_model(dialect: str, theirs: str) -> None:
    request = ModelRequest("x", (Message("user", (Text(write_call(ACTIONS[-1])),)),))

    async def program(attempt: Attempt) -> Action:
        wire = DIALECTS[dialect].write_request(request)
        async with httpx2.AsyncClient() as client:
            url = attempt.base_url + DIALECTS[dialect].path
            response = await client.post(url, json=wire, headers={"x-api-key": attempt.api_key})
        answer = DIALECTS[dialect].read_answer(response.content)
        assert answer.parts == request.messages[0].parts
        return Action("user", "answer", {"text": "634"})

    with serving(echo) as served:
        trajectory = run(program, served, dialect=theirs)
    assert (trajectory.error, trajectory.outcome) == ("", "finished")
    assert trajectory.turns[0].action == Action("user", "answer", {"text": "634"})


def test_a_wrong_key_and_unknown_paths_are_refused() -> None:
    seen: list[tuple[int, str]] = []

    def program(attempt: Attempt) -> str:
        url = f"{attempt.base_url}/chat/completions"
        responses = (
            httpx2.post(url, json={}, headers={"authorization": "Bearer guess"}),
            httpx2.post(url, json={}),
            httpx2.get(f"{attempt.base_url}/assistants"),
            ask(attempt, "", n=2),
        )
        seen.extend((response.status_code, response.json()["error"]["message"]) for response in responses)
        return "user.finish"

    with serving(echo) as served:
        trajectory = run(program, served)
    assert [status for status, _ in seen] == [401, 401, 404, 400]
    assert seen[0][1].startswith("the key is not the one of this attempt")
    assert served.bodies == []
    assert trajectory.turns[0].message == ""


def test_a_program_reports_what_it_used_of_other_models() -> None:
    seen: list[tuple[int, str]] = []

    def report(attempt: Attempt, body: object, key: str = "") -> None:
        headers = {"authorization": f"Bearer {key or attempt.api_key}"}
        response = httpx2.post(f"{attempt.base_url}/usage", json=body, headers=headers)
        seen.append((response.status_code, response.text))

    def program(attempt: Attempt) -> str:
        ask(attempt, "Hi")
        report(
            attempt, {"input_tokens": 50, "output_tokens": 7, "cached_input_tokens": 20, "cache_write_tokens": 10}
        )
        report(attempt, {"output_tokens": 1})
        for wrong in (
            {"tokens": 5},
            {"input_tokens": "5"},
            {"input_tokens": -1},
            {"input_tokens": True},
            {"input_tokens": 5, "cached_input_tokens": 6},
            [5],
        ):
            report(attempt, wrong)
        report(attempt, {"input_tokens": 5}, key="guess")
        return "user.finish"

    with serving(echo) as served:
        trajectory = run(program, served)
    used = ModelUsage(150, 18, 100, 10)
    assert trajectory.turns[0].usage == used
    assert (trajectory.usage.prompt_tokens, trajectory.usage.written_tokens) == (150, 18)
    assert (trajectory.cached_tokens, trajectory.cache_write_tokens) == (100, 10)
    assert [status for status, _ in seen] == [200, 200, *[400] * 6, 401]
    assert json.loads(seen[1][1]) == asdict(used)
    assert "got 'tokens'" in seen[2][1]
    assert "input_tokens must be a whole number, got '5'" in seen[3][1]
    assert "those of the cache within input_tokens" in seen[6][1]


def test_a_program_that_reports_nothing_has_no_known_usage() -> None:
    with serving(echo) as served:
        trajectory = run(lambda _: "user.finish", served)
    assert trajectory.turns[0].usage is None
    assert (trajectory.usage.prompt_tokens, trajectory.usage.written_tokens) == (0, 0)


def test_calls_of_a_program_that_its_server_does_not_count_are_estimated() -> None:
    def program(attempt: Attempt) -> str:
        ask(attempt, "x" * 400)
        return "user.finish"

    with serving(lambda _: replace(answered(Text("y" * 40), finish="stop"), usage=TokenUsage())) as served:
        trajectory = run(program, served)
    assert trajectory.turns[0].usage == ModelUsage(100, 10, is_estimated=True)
    assert trajectory.is_usage_estimated


def test_a_failed_call_reaches_the_program_and_is_recorded() -> None:
    statuses: list[int] = []

    def program(attempt: Attempt) -> str:
        statuses.append(ask(attempt, "Hi").status_code)
        return "user.finish"

    with serving(lambda _: (400, '{"error": {"message": "too long"}}')) as served:
        trajectory = run(program, served)
    (call,) = from_fields(CapturedCalls, trajectory.turns[0].message).calls
    assert statuses == [400]
    assert call.answer is None
    assert "too long" in call.failure
    assert trajectory.turns[0].usage is None


def test_calls_are_stored_without_repetition_and_within_limits() -> None:
    def messages(*texts: str) -> tuple[Message, ...]:
        return tuple(Message("user", (Text(text),)) for text in texts)

    answer, usage = Message("assistant", (Text("ok"),)), TokenUsage(1, 2)
    calls = [
        CapturedCall(messages("a", "b"), answer, usage),
        CapturedCall(messages("a", "b", "c"), answer, usage),
        CapturedCall(messages("x", "b"), None, usage, "broke off"),
    ]
    assert from_fields(CapturedCalls, stored_calls(calls)).calls == (
        calls[0],
        CapturedCall(messages("c"), answer, usage, repeated=2),
        calls[2],
    )
    known = CapturedCall((*messages("a", "b"), answer, *messages("c")), answer, usage)
    assert from_fields(CapturedCalls, stored_calls([known], calls[0])).calls == (
        CapturedCall(messages("c"), answer, usage, repeated=3),
    )
    calls[1] = CapturedCall(messages("a" * 2**20), answer, usage)
    assert from_fields(CapturedCalls, stored_calls(calls)).calls == tuple(
        CapturedCall((), None, usage, failure, is_cut=True) for failure in ("", "", "broke off")
    )
    assert stored_calls([]) == ""


def test_the_pages_example_works() -> None:
    page = (Path(__file__).parents[3] / "docs" / "programs.md").read_text(encoding="utf-8")
    start = page.index("import httpx2\n")
    names: dict[str, Any] = {}
    exec(page[start : page.index("```", start)], names)

    def script(request: ModelRequest) -> Any:
        assert len(request.tools) == len(KIT.tools)
        done = sum(message.role == "assistant" for message in request.messages)
        return answered(call_of(ACTIONS[done], done))

    with serving(script) as served:
        trajectory = run(names["act"], served)
    assert trajectory.error == ""
    assert verify(KIT.verifier, TASK, trajectory).is_success
    assert {turn.repairs for turn in trajectory.turns} == {()}


COMMAND = """
    import json, os, sys, urllib.request
    attempt = json.load(sys.stdin)
    assert os.environ["OPENAI_API_KEY"] == os.environ["ANTHROPIC_API_KEY"] == attempt["api_key"]
    assert os.environ["OPENAI_BASE_URL"] == os.environ["ANTHROPIC_BASE_URL"] + "/v1" == attempt["base_url"]
    assert json.loads(os.environ["UPTURN_TASK"])["instruction"] == attempt["task"]
    assert os.getcwd() == os.path.realpath(attempt["folder"]) and os.listdir() == []
    body = {"model": attempt["model"], "messages": [{"role": "user", "content": sys.argv[1]}]}
    request = urllib.request.Request(
        attempt["base_url"] + "/chat/completions", json.dumps(body).encode(),
        {"content-type": "application/json", "authorization": "Bearer " + attempt["api_key"]},
    )
    answer = json.load(urllib.request.urlopen(request))["choices"][0]["message"]["content"]
    print("I think, then act.")
    print("Action:", answer)
"""


def command(path: Path, source: str = COMMAND, *arguments: str) -> ProgramCommand:
    script = path / "program.py"
    script.write_text(textwrap.dedent(source))
    return program_command([sys.executable, "-S", str(script), *arguments])


def test_a_command_acts_by_its_output(tmp_path: Path) -> None:
    with serving(echo) as served:
        trajectory = run(command(tmp_path, COMMAND, write_call(ACTIONS[0])), served)
    assert (trajectory.outcome, trajectory.error) == ("finished", "")
    assert [turn.action for turn in trajectory.turns] == [replace(ACTIONS[0], thought="I think, then act.")]
    assert trajectory.turns[0].repairs == ("react",)


def test_a_command_that_fails_or_never_ends_ends_its_rollout(tmp_path: Path) -> None:
    def ended(source: str, **limits: Any) -> tuple[Outcome, str]:
        with serving(echo) as served:
            trajectory = run(command(tmp_path, source), served, **limits)
        return trajectory.outcome, trajectory.error

    outcome, error = ended("import sys; sys.exit('no such thing')")
    assert outcome == "program_error"
    assert error.startswith("no such thing\nthe command '")
    assert error.endswith("ended with 1")
    mark = tmp_path / "mark"
    source = f"import time, pathlib\ntime.sleep(30)\npathlib.Path({str(mark)!r}).touch()"
    assert ended(source, max_seconds=0.3) == ("time_limit", "")
    assert not mark.exists()


@pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")
def test_a_command_in_a_sandbox_reaches_its_model_and_nothing_else(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("x")
    source = COMMAND.replace('print("I think', f'assert not os.path.exists({str(secret)!r})\n    print("I think')
    run_here = command(tmp_path, source, write_call(ACTIONS[0]))
    with serving(echo) as served:
        trajectory = run(replace(run_here, sandbox=SandboxLimits()), served)
    assert (trajectory.outcome, trajectory.error) == ("finished", "")
    assert trajectory.turns[0].action == replace(ACTIONS[0], thought="I think, then act.")


def test_a_function_in_a_process_of_its_own_is_imported_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "forked_agent.py").write_text(
        textwrap.dedent("""
        import json, os, urllib.request
        imported_by = os.getpid()

        def act(attempt):
            assert os.getppid() != 1 and os.environ["OPENAI_API_KEY"] == attempt["api_key"]
            body = {"model": "m", "messages": [{"role": "user", "content": "user.finish"}]}
            request = urllib.request.Request(
                attempt["base_url"] + "/chat/completions", json.dumps(body).encode(),
                {"content-type": "application/json", "authorization": "Bearer " + attempt["api_key"]},
            )
            answer = json.load(urllib.request.urlopen(request))["choices"][0]["message"]["content"]
            return f"{answer} note={imported_by}-{os.getpid()}-{os.getcwd()}"
        """)
    )
    monkeypatch.syspath_prepend(tmp_path)
    with serving(echo) as served:
        endpoint = Endpoint(served.url, "m", UpstreamConfig(retries=0), "secret")
        agent = ProgramAgent(ForkedFunction("forked_agent:act"), ProgramModels("m", endpoint_model(endpoint)))
        setting = Setting("k", agent, "mine@1", None, limits=Limits())
        jobs = [Job(RolloutRequest(TASK, number, 0), setting) for number in range(3)]
        trajectories = asyncio.run(run_rollouts(jobs, KIT.environment))
    notes = [
        str(trajectory.turns[0].action.parameters["note"])
        for trajectory in trajectories
        if trajectory.turns[0].action
    ]
    imported, processes, folders = (set(part) for part in zip(*(note.split("-", 2) for note in notes), strict=True))
    assert [trajectory.error for trajectory in trajectories] == [""] * 3
    assert (len(imported), len(processes), len(folders)) == (1, 3, 3)
    assert imported.isdisjoint({str(os.getpid())})


def test_files_of_a_command_are_those_of_the_folders_of_import_paths(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "agent.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    known = program_command(["python", "agent.py", "other.py", "--fast", "/x", "."])
    assert known.command == ("python", str(tmp_path / "agent.py"), "other.py", "--fast", "/x", ".")


def test_text_without_a_call_is_an_error_unless_a_tool_takes_it() -> None:
    answer = Tool("user", "answer", "Answers.", {"text": {"type": "string"}}, ("text",), text_parameter="text")
    endpoint = Endpoint("http://localhost:1/v1", "m")
    for tools, action in (((), None), ((answer,), Action("user", "answer", {"text": "Done."}))):
        agent = ProgramAgent(lambda _: "Done.", ProgramModels("m", endpoint_model(endpoint)), tools)
        setting = Setting("k", agent, "mine@1", None, limits=Limits(max_turns=1))
        trajectory = asyncio.run(rollout(RolloutRequest(TASK, 0, 0), KIT.environment, setting))
        assert trajectory.turns[0].action == action


def finish(_attempt: Attempt) -> str:
    return "user.finish"


@pytest.mark.parametrize(
    ("parameters", "problem"),
    [
        ({}, "a program is either import_path"),
        ({"import_path": f"{__name__}:finish", "command": ["ls"]}, "a program is either import_path"),
        ({"import_path": "operator:add"}, r"cannot be called as function\(attempt\)"),
        ({"import_path": f"{__name__}:finish", "temperature": 1.0}, "temperature"),
    ],
)
def test_an_unusable_version_is_refused(parameters: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        made(parameters)


@pytest.mark.parametrize("parameters", [{"import_path": f"{__name__}:finish"}, {"command": ["ls", "-l"]}])
def test_a_version_names_a_function_or_a_command(parameters: dict[str, Any]) -> None:
    assert isinstance(made(parameters), ProgramAgent)


def made(parameters: dict[str, Any]) -> object:
    version = AgentVersion("a", "1", "program", model="http://x/v1", model_name="m", parameters=parameters)
    return build(version, limits=Limits())

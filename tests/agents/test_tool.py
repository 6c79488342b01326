import asyncio
import threading
from collections.abc import Sequence

import pytest
from tokenizers import AddedToken, Tokenizer, decoders, models

from upturn.agents import CallableAgent, Recorder, Reply
from upturn.agents.tool import AgentFunction, ToolAgent
from upturn.config import Limits
from upturn.models import SPECIAL_TOKENS, CompactRenderer, FinishReason, Generation, GenerationRequest
from upturn.records import Action, Observation, Turn


def session() -> Recorder:
    return Recorder(None, GenerationRequest((), 0, (), 1.0, "s", (0, 0), 0))


def act(function: AgentFunction, turns: Sequence[Turn] = ()) -> Reply:
    return asyncio.run(CallableAgent(function).act(turns, Observation("now"), session()))


def test_a_function_answers_with_an_action_or_with_text() -> None:
    assert act(lambda *_: Action("mail", "list", {"folder": "in"})) == Reply(
        "mail.list folder=in", Action("mail", "list", {"folder": "in"})
    )
    assert act(lambda *_: "mail.list folder=in").action == Action("mail", "list", {"folder": "in"})
    parts = '{"target_app": "mail", "operation": "list", "parameters": {"folder": "in"}, "reasoning": "to see"}'
    assert act(lambda *_: parts) == Reply(parts, Action("mail", "list", {"folder": "in"}, "to see"))
    assert act(lambda *_: "I do not know") == Reply("I do not know", None)


def test_an_async_function_gets_instruction_turns_and_observation() -> None:
    arguments: list[object] = []

    async def function(instruction: str, turns: Sequence[Turn], observation: Observation) -> str:
        arguments.extend([instruction, len(turns), observation.text])
        return "user.finish"

    assert act(function).action == Action("user", "finish")
    assert act(function, [Turn(Observation("first"), "x.y", Action("x", "y"))]).action is not None
    assert arguments == ["now", 0, "now", "first", 1, "now"]


def test_an_action_outside_the_grammar_still_reaches_the_environment() -> None:
    assert act(lambda *_: Action("my mail", "list")) == Reply("my mail.list", Action("my mail", "list"))


def test_other_answers_are_refused() -> None:
    with pytest.raises(TypeError, match="must return an Action or a str, got a int"):
        act(lambda *_: 3)  # type: ignore[arg-type]


def test_a_plain_function_runs_in_a_thread() -> None:
    release = threading.Event()

    def waiting(*_: object) -> str:
        assert release.wait(60)
        return "user.finish"

    async def run() -> Reply:
        reply = asyncio.create_task(CallableAgent(waiting).act((), Observation("now"), session()))
        await asyncio.sleep(0)
        release.set()  # not reached if the function blocks the loop
        return await reply

    assert asyncio.run(run()).action == Action("user", "finish")


def test_an_object_with_an_async_call_is_async_too() -> None:
    class Caller:
        async def __call__(self, *_: object) -> str:
            assert threading.current_thread() is threading.main_thread()
            return "user.finish"

    assert act(Caller()).text == "user.finish"
    assert act(lambda *_: Caller()()).text == "user.finish"


@pytest.mark.parametrize(
    "error", [SystemExit, KeyboardInterrupt, GeneratorExit, asyncio.CancelledError, StopIteration]
)
def test_exits_and_cancellations_become_errors(error: type[BaseException]) -> None:
    def raising(*_: object) -> str:
        raise error

    with pytest.raises(RuntimeError, match=error.__name__):
        act(raising)


@pytest.mark.parametrize("error", [SystemExit, asyncio.CancelledError])
def test_an_async_function_cannot_exit_the_process(error: type[BaseException]) -> None:
    async def raising(*_: object) -> str:
        raise error

    with pytest.raises(RuntimeError, match=error.__name__):
        act(raising)


def test_an_action_with_non_text_names_still_has_a_text() -> None:
    action = Action(None, 5)  # type: ignore[arg-type]
    assert act(lambda *_: action) == Reply("None.5", action)


def test_an_abandoned_endless_loop_is_stopped() -> None:
    threads: list[threading.Thread] = []

    def spin(*_: object) -> str:
        threads.append(threading.current_thread())
        while True:
            pass

    async def give_up() -> None:
        acting = asyncio.ensure_future(CallableAgent(spin).act((), Observation("now"), session()))
        while not threads:
            await asyncio.sleep(0.001)
        acting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await acting

    asyncio.run(give_up())
    threads[0].join(60)
    assert not threads[0].is_alive()


class Stopped:
    """A model whose output ends with a stop string, or at its limit."""

    def __init__(self, token_ids: Sequence[int], reason: FinishReason) -> None:
        self.generation = Generation(tuple(token_ids), (0.0,) * len(token_ids), reason, "w")

    async def generate(self, request: GenerationRequest) -> Generation:
        return self.generation

    def release(self, session: str) -> None:
        pass


@pytest.mark.parametrize(("reason", "is_read"), [("stop", True), ("length", False)])
def test_an_action_that_a_stop_string_ended_is_complete(reason: FinishReason, is_read: bool) -> None:
    tokenizer = Tokenizer(models.BPE({chr(code): code for code in range(256)}, []))
    tokenizer.add_special_tokens([AddedToken(token, special=True) for token in SPECIAL_TOKENS])
    tokenizer.decoder = decoders.Fuse()
    renderer = CompactRenderer(tokenizer)
    written = renderer.write(Action("mail", "list", {"folder": "in"}))[:-1]
    recorder = Recorder(Stopped(written, reason), GenerationRequest((), 0, (), 1.0, "s", (0, 0), 0))
    reply = asyncio.run(ToolAgent(renderer, Limits()).act((), Observation("now"), recorder))
    assert (reply.action == Action("mail", "list", {"folder": "in"})) is is_read
    assert recorder.rows(1)[0].token_ids[-len(written) :] == written  # no token is added to the record

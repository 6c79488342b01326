"""Kits behind OpenEnv's server, over real sockets."""

import json
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from benchmarks.errands import ENVIRONMENT, compose
from upturn.environments import resolve_kit
from upturn.models import write_call

pytest.importorskip("openenv.core", reason="the extra openenv is not installed")

import uvicorn
from pydantic import ValidationError
from websockets.sync.client import connect

from upturn.environments.adapters.openenv import (
    KitAction,
    KitClient,
    KitEnvironment,
    KitObservation,
    KitState,
    create_app,
)

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # OpenEnv's and websockets' own


@contextmanager
def serve(kit: str) -> Iterator[str]:
    """Starts a server of this kit on a free port, for at most three concurrent episodes, and returns its URL."""
    with closing(socket.create_server(("127.0.0.1", 0))) as listening:
        app = create_app(kit, max_turns=20, max_sessions=3)
        server = uvicorn.Server(uvicorn.Config(app, log_level="critical"))
        thread = threading.Thread(target=server.run, args=([listening],), daemon=True)
        thread.start()
        while not server.started:
            assert thread.is_alive()
            time.sleep(0.01)
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        server.should_exit = True
        thread.join(10)
        assert not thread.is_alive(), "nothing that was sent keeps the server from ending"


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """The URL of a server of errands."""
    with serve(ENVIRONMENT) as address:
        yield address


def post(url: str, body: object) -> tuple[int, Any]:
    """Returns the status and JSON of the response."""
    sent = body if isinstance(body, bytes) else json.dumps(body).encode()
    request = Request(url, sent, {"Content-Type": "application/json"})
    try:
        with urlopen(request) as answer:
            return answer.status, json.load(answer)
    except HTTPError as refused:
        return refused.code, json.load(refused)


def test_the_oracle_over_the_wire_earns_1_with_the_last_action(url: str) -> None:
    with KitClient(url).sync() as env:
        opened = env.reset(seed=4, family="mail_to_event", episode_id="e1")
        task = next(iter(resolve_kit(ENVIRONMENT).tasks(seed=4, split="train", families=["mail_to_event"])))
        assert (opened.observation.text, opened.reward, opened.done) == (task.instruction, None, False)
        actions = compose(task).draft.oracle
        results = [env.step(KitAction(text=write_call(action))) for action in actions[:-1]]
        assert [(result.reward, result.done) for result in results] == [(0.0, False)] * len(results)
        state = env.state()
        assert isinstance(state, KitState)
        assert (state.episode_id, state.step_count) == ("e1", len(results))
        assert state.task is not None
        assert state.task["id"] == task.id
        assert state.world["changes"]
        last = actions[-1]
        parts = KitAction(target=last.target, operation=last.operation, parameters=dict(last.parameters))
        done = env.step(parts)
        assert isinstance(done.observation, KitObservation)
        assert done.observation.evaluation is not None
        assert (done.reward, done.done, done.observation.evaluation["verdict"]) == (1.0, True, "success")
        over = env.step(KitAction(text="user.finish"))
        assert (over.observation.code, over.reward, over.done) == ("is_over", 0.0, True)
        assert over.observation.evaluation is None


def test_connections_have_separate_episodes_and_tasks_continue(url: str) -> None:
    with KitClient(url).sync() as one, KitClient(url).sync() as other:
        instructions = [one.reset(seed=7, level=2).observation.text, one.reset(level=2).observation.text]
        assert [
            other.reset(seed=7, level=2).observation.text,
            other.reset(level=2).observation.text,
        ] == instructions
        assert instructions[0] != instructions[1]
        one.step(KitAction(text="mail.list folder=inbox"))
        assert (one.state().step_count, other.state().step_count) == (1, 0)
        assert one.reset(level=2, split="heldout").observation.text not in instructions


def test_agent_mistakes_get_observations(url: str) -> None:
    with KitClient(url).sync() as env:
        env.reset(seed=0)
        for action in (KitAction(), KitAction(text="what now"), KitAction(target="fax", operation="send")):
            result = env.step(action)
            assert result.observation.code in ("malformed", "unknown_target")
            assert (result.reward, result.done) == (0.0, False)
            assert result.observation.info["cost_components"] == {"error": 1.0}


def test_faults_are_reported_in_their_step(interrupted: Any) -> None:
    with serve("office") as url, KitClient(url).sync() as env:
        opened = env.reset(seed=0, family=interrupted.task.family).observation
        assert (opened.text, opened.info["faults"]) == (interrupted.task.instruction, [])
        results = [env.step(KitAction(text=call)) for call in interrupted.calls]
        assert [result.observation.info["faults"] for result in results] == interrupted.faults


def test_calls_in_the_wrong_order_or_for_unknown_tasks_are_errors(url: str) -> None:
    with KitClient(url).sync() as env:
        with pytest.raises(RuntimeError, match="409: there is no task yet; call reset first"):
            env.step(KitAction(text="user.finish"))
        assert env.state() == KitState()
        with pytest.raises(RuntimeError, match="422: errands has no family 'fax'"):
            env.reset(family="fax")
        for wrong in ({"seed": "one"}, {"seed": -1}, {"split": "test"}, {"tsk": 1}):
            with pytest.raises(RuntimeError, match=r"422: .*validation error"):
                env.reset(**wrong)
        assert env.reset(seed=0).observation.text, "the connection has borne all that"


def test_plain_http_shows_tasks_and_schemas_and_refuses_the_rest(url: str) -> None:
    status, opened = post(f"{url}/reset", {"seed": 3, "level": 1})
    assert (status, opened["done"], opened["reward"]) == (200, False, None)
    assert opened["observation"]["text"]
    assert post(f"{url}/reset", {"family": "fax"})[0] == 422
    assert post(f"{url}/step", {"action": {"text": "user.finish"}}) == (
        409,
        {"detail": "there is no task yet; call reset first"},
    )
    assert post(f"{url}/step", {"action": {"txt": "user.finish"}})[0] == 422
    assert post(f"{url}/step", b"{")[0] == 422
    with urlopen(f"{url}/schema") as answer:
        schema = json.load(answer)
    assert schema["action"]["additionalProperties"] is False
    assert {"text", "target", "operation", "parameters"} <= schema["action"]["properties"].keys()
    with urlopen(f"{url}/metadata") as answer:
        assert json.load(answer)["name"] == "errands"


@pytest.mark.parametrize(
    "data",
    [
        {"txt": "user.finish"},
        {"text": 3},
        {"text": "user.finish", "target": "user"},
        {"parameters": [1]},
        {"target": None},
    ],
)
def test_invalid_messages_are_refused_and_the_connection_continues(url: str, data: object) -> None:
    with connect(url.replace("http", "ws") + "/ws") as connection:

        def ask(message: object) -> dict[str, Any]:
            connection.send(message if isinstance(message, str) else json.dumps(message))
            reply: dict[str, Any] = json.loads(connection.recv(timeout=10))
            return reply

        assert ask({"type": "reset", "data": {"seed": 0}})["type"] == "observation"
        refused = ask({"type": "step", "data": data})
        assert (refused["type"], refused["data"]["code"]) == ("error", "VALIDATION_ERROR")
        assert ask("{")["data"]["code"] == "INVALID_JSON"
        assert ask({"type": "step", "data": {"text": "user.finish"}})["data"]["done"] is True


@pytest.mark.parametrize("text", ['"\\ud800"', "NaN", '{"deep": ' * 200 + "1" + "}" * 200])
def test_non_json_values_do_not_affect_other_connections(url: str, text: str) -> None:
    with connect(url.replace("http", "ws") + "/ws") as connection, KitClient(url).sync() as other:
        other.reset(seed=0)
        connection.send('{"type": "reset", "data": {"seed": 0}}')
        connection.recv(timeout=10)
        connection.send(f'{{"type": "step", "data": {{"target": "user", "parameters": {{"text": {text}}}}}}}')
        answered = json.loads(connection.recv(timeout=10))["data"]["observation"]
        assert (answered["code"], answered["info"]["cost_components"]) == ("malformed", {"error": 1.0})
        assert other.step(KitAction(text="user.finish")).done


def test_too_many_connections_are_refused(url: str) -> None:
    with ExitStack() as open_ones:
        for _ in range(3):
            open_ones.enter_context(KitClient(url).sync()).reset(seed=0)
        with connect(url.replace("http", "ws") + "/ws") as connection:
            assert json.loads(connection.recv(timeout=10))["data"]["code"] == "CAPACITY_REACHED"


def test_a_missing_evaluation_gives_no_reward(twice: str) -> None:
    env = KitEnvironment(resolve_kit(f"{twice}:unjudged"))
    env.reset(seed=0)
    done = env.step(KitAction(text="user.answer text=1"))
    assert (done.done, done.reward) == (True, None)
    assert done.evaluation is not None
    assert done.evaluation["verdict"] == "missing"


def test_a_blocking_environment_is_called_in_one_thread_per_connection(twice: str) -> None:
    with serve(f"{twice}:blocking") as url, KitClient(url).sync() as env:
        instruction = env.reset(seed=0).observation.text
        result = env.step(KitAction(text=f"user.answer text={2 * int(instruction.split()[-1][:-1])}"))
        assert (result.reward, result.done) == (1.0, True)
        assert env.state().world["action"] is not None
    threads = sys.modules[twice].Blocking.threads
    assert len(threads) > 3
    assert len(set(threads)) == 1
    assert threads[0] is not threading.main_thread()


def test_the_turn_limit_ends_an_episode() -> None:
    env = KitEnvironment(resolve_kit(ENVIRONMENT), max_turns=1)
    env.reset(seed=0)
    done = env.step(KitAction(text="mail.list folder=inbox"))
    assert (done.done, done.is_truncated, done.reward) == (True, True, 0.0)


def test_an_action_has_one_form_and_no_unknown_fields() -> None:
    with pytest.raises(ValidationError, match="a text or its parts, not both"):
        KitAction(text="user.finish", target="user")
    for cls, fields in ((KitAction, {}), (KitObservation, {"text": ""}), (KitState, {})):
        with pytest.raises(ValidationError, match="Extra inputs are not permitted"):
            cls(**fields, more=1)


def test_an_actions_parts_have_aliases() -> None:
    sent = {"target_app": "mail", "operation": "move", "parameters": {"id": "m1"}, "reasoning": "It is old."}
    read = KitAction.model_validate(sent)
    assert read == KitAction(target="mail", operation="move", parameters={"id": "m1"}, thought="It is old.")
    assert read.model_dump(exclude_defaults=True).keys() == {"target", "operation", "parameters", "thought"}
    for wrong in (
        {**sent, "target": "mail"},
        {**sent, "thought": "It is old."},
        {**sent, "app": "mail"},
        {**sent, "target_app": 3},
        {**sent, "parameters": ["m1"]},
        {**sent, "text": "user.finish"},
    ):
        with pytest.raises(ValidationError):
            KitAction.model_validate(wrong)

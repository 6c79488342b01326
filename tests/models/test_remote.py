import asyncio
import json
import math
import random
import socket
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from upturn.config import SamplingSettings
from upturn.errors import ConfigError, ModelError
from upturn.models import Generation, GenerationRequest
from upturn.models.remote import RemoteEngine, RemoteSettings

REQUEST = GenerationRequest((5, 6, 7), 4, (2,), 1.0, "s", (0, 0), 2**62 + 3)
WRITTEN = Generation((11, 12, 2), (-0.5, -1.25, -0.0625), "stop", "w1")
DIALECTS = ("vllm", "sglang")


class FixedModel:
    """Always writes the same, after a short wait for concurrent requests."""

    def __init__(self, generation: Generation = WRITTEN) -> None:
        self.generation = generation
        self.requests: list[GenerationRequest] = []

    async def generate(self, request: GenerationRequest) -> Generation:
        self.requests.append(request)
        await asyncio.sleep(0.005)
        return self.generation

    def release(self, session: str) -> None:
        pass


def remote(server: Any, dialect: Any = "vllm", *, waits: list[float] | None = None, **changes: Any) -> RemoteEngine:
    async def sleep(seconds: float) -> None:
        if waits is not None:
            waits.append(seconds)

    settings = RemoteSettings(server.url, dialect, **{"timeout_seconds": 5.0, "retries": 0, **changes})
    return RemoteEngine(settings, "w1", api_key="secret", sleep=sleep, rng=random.Random(7))


def generate(engine: RemoteEngine, request: GenerationRequest = REQUEST) -> Generation:
    return asyncio.run(engine.generate(request))


@pytest.mark.parametrize("dialect", DIALECTS)
def test_requests_and_answers_are_token_ids_with_logprobs(engine_server: ModuleType, dialect: str) -> None:
    model = FixedModel()
    with engine_server.serving(engine_server.Engine(model, "w1")) as server:
        generation = generate(remote(server, dialect))
    assert generation == WRITTEN
    (request,) = model.requests
    assert (request.prompt_ids, request.max_tokens, request.stop_ids) == ((5, 6, 7), 4, (2,))
    assert request.temperature == 1.0
    ((path, headers, body),) = server.requests
    assert headers["authorization"] == "Bearer secret"
    assert path == {"vllm": "/v1/completions", "sglang": "/generate"}[dialect]
    sampling = body if dialect == "vllm" else body["sampling_params"]
    assert (sampling["top_p"], sampling["top_k"], sampling["min_p"], sampling["repetition_penalty"]) == (
        1.0,
        -1,
        0.0,
        1.0,
    )
    assert sampling["ignore_eos"] is True and body["stream"] is False
    if dialect == "vllm":
        assert body["seed"] == REQUEST.seed and body["return_token_ids"] is True and body["logprobs"] == 0
    else:
        assert sampling["sampling_seed"] == 3 and body["return_logprob"] is True


def test_the_url_may_end_in_v1_and_compatible_servers_work(engine_server: ModuleType) -> None:
    def plain(_: Any, answer: dict[str, Any]) -> dict[str, Any]:
        answer["choices"][0]["logprobs"]["tokens"] = [
            "a",
            "b",
            "c",
        ]  # the server does not support return_tokens_as_token_ids
        del answer["choices"][0]["prompt_token_ids"], answer["usage"]
        return answer

    with engine_server.serving(engine_server.Engine(FixedModel(), "w1", faults=[plain])) as server:
        settings = RemoteSettings(f"{server.url}/v1/")
        assert generate(RemoteEngine(settings, "w1")) == WRITTEN
    assert "authorization" not in server.requests[0][1]


def change_choice(change: Callable[[dict[str, Any]], object]) -> Callable[[Any, dict[str, Any]], dict[str, Any]]:
    def fault(_: Any, answer: dict[str, Any]) -> dict[str, Any]:
        change(answer["choices"][0])
        return answer

    return fault


def replace_fields(**changes: Any) -> Callable[[Any, dict[str, Any]], dict[str, Any]]:
    return lambda _, answer: {**answer, **changes}


VLLM_FAULTS = {
    "but 'w1' were loaded": replace_fields(model="w2"),
    "retokenises the prompt from text": change_choice(lambda choice: choice.update(prompt_token_ids=[5, 67])),
    "it received 4 prompt tokens, 3 were sent": replace_fields(usage={"prompt_tokens": 4}),
    "belong to other token ids than it returns": change_choice(lambda choice: choice.update(token_ids=[1112, 2])),
    "it returns 2 log-probs for 3 tokens": change_choice(
        lambda choice: choice["logprobs"].update(token_logprobs=[-1, -1], tokens=[])
    ),
    r"1 of its log-probs are missing or invalid, such as \[None\]": change_choice(
        lambda choice: choice["logprobs"].update(token_logprobs=[None, -1.0, -1.0])
    ),
    r"such as \[0.25\]": change_choice(lambda choice: choice["logprobs"].update(token_logprobs=[-1.0, 0.25, -1.0])),
    "there are no token_ids": change_choice(lambda choice: choice.update(token_ids=None)),
    "there are no logprobs": change_choice(lambda choice: choice.update(logprobs=None)),
    "its finish reason is 'abort'": change_choice(lambda choice: choice.update(finish_reason="abort")),
    "did not answer as an engine that returns token ids": replace_fields(choices=[]),
}


@pytest.mark.parametrize(("message", "fault"), VLLM_FAULTS.items(), ids=range(len(VLLM_FAULTS)))
def test_an_inconsistent_vllm_answer_is_refused_with_the_reason(
    engine_server: ModuleType, message: str, fault: Any
) -> None:
    with (
        engine_server.serving(engine_server.Engine(FixedModel(), "w1", faults=[fault])) as server,
        pytest.raises(ModelError, match=message) as caught,
    ):
        generate(remote(server, retries=3))
    assert server.url in str(caught.value) and "secret" not in str(caught.value)
    assert len(server.requests) == 1, "a retry would give the same"


SGLANG_FAULTS: dict[str, Any] = {
    "but 'w1' were loaded": {"weight_version": "default"},
    "it received 9 prompt tokens, 3 were sent": {"prompt_tokens": 9},
    "belong to other token ids": {"output_token_logprobs": [[-1.0, 11, None], [-1.0, 13, None], [-1.0, 2, None]]},
    "there are no output_token_logprobs": {"output_token_logprobs": None},
    "its finish reason is 'abort'": {"finish_reason": {"type": "abort", "message": "weights change"}},
}


@pytest.mark.parametrize(("message", "change"), SGLANG_FAULTS.items(), ids=range(len(SGLANG_FAULTS)))
def test_an_inconsistent_sglang_answer_is_refused_with_the_reason(
    engine_server: ModuleType, message: str, change: Any
) -> None:
    def fault(_: Any, answer: dict[str, Any]) -> dict[str, Any]:
        return {**answer, "meta_info": {**answer["meta_info"], **change}}

    with (
        engine_server.serving(engine_server.Engine(FixedModel(), "w1", faults=[fault])) as server,
        pytest.raises(ModelError, match=message),
    ):
        generate(remote(server, "sglang"))


@pytest.mark.parametrize(
    ("written", "message"),
    [
        (Generation((), (), "length", "w1"), "it generated no token"),
        (Generation((8,) * 5, (-1.0,) * 5, "length", "w1"), "it generated 5 tokens, 4 were requested"),
        (Generation((2, 8), (-1.0,) * 2, "length", "w1"), r"it continued after stop id \[2\]"),
        (Generation((8, 9), (-1.0,) * 2, "stop", "w1"), "it stopped after token 9, which is none of the stop ids"),
    ],
)
def test_tokens_that_do_not_fit_the_request_are_refused(
    engine_server: ModuleType, written: Generation, message: str
) -> None:
    with (
        engine_server.serving(engine_server.Engine(FixedModel(written), "w1")) as server,
        pytest.raises(ModelError, match=message),
    ):
        generate(remote(server))


def test_a_logprob_rounded_above_0_becomes_0(engine_server: ModuleType) -> None:
    written = replace(WRITTEN, logprobs=(-0.5, 1e-5, -0.0))
    with engine_server.serving(engine_server.Engine(FixedModel(written), "w1")) as server:
        generation = generate(remote(server))
    assert generation.logprobs == (-0.5, 0.0, 0.0) and max(generation.logprobs) <= 0.0


def test_a_stop_id_at_the_token_limit_is_a_stop(engine_server: ModuleType) -> None:
    written = Generation((8, 9, 10, 2), (-1.0,) * 4, "length", "w1")
    with engine_server.serving(engine_server.Engine(FixedModel(written), "w1")) as server:
        assert generate(remote(server)).finish_reason == "stop"
        assert generate(remote(server), replace(REQUEST, stop_ids=())).finish_reason == "length"


def test_transient_errors_are_retried_with_growing_jittered_waits(
    engine_server: ModuleType,
) -> None:
    waits: list[float] = []
    refusals: list[Any] = [(503, "loading", {}), (429, "slow down", {"retry-after": "7"}), (500, "", {})]
    with engine_server.serving(engine_server.Engine(FixedModel(), "w1", refusals=refusals)) as server:
        assert generate(remote(server, waits=waits, retries=3)) == WRITTEN
    jitter = random.Random(7)
    assert waits == [wait * (1 + jitter.random()) for wait in (0.5, 7.0, 2.0)]


def test_an_incomplete_answer_is_retried_and_finally_named(engine_server: ModuleType) -> None:
    with engine_server.serving(engine_server.Engine(FixedModel(), "w1", broken=1)) as server:
        assert generate(remote(server, retries=1)) == WRITTEN
        server.broken = 2
        with pytest.raises(ModelError, match="failed 2 times, at last with RemoteProtocolError"):
            generate(remote(server, retries=1))


def test_client_errors_are_not_retried(engine_server: ModuleType) -> None:
    refusals: list[Any] = [(400, "This model's maximum context length is 2 tokens", {})]
    with (
        engine_server.serving(engine_server.Engine(FixedModel(), "w1", refusals=refusals)) as server,
        pytest.raises(ModelError, match="refused model 'w1': HTTP 400: This model's maximum context"),
    ):
        generate(remote(server, retries=5))
    assert len(server.requests) == 1


def test_timeouts_and_connection_errors_are_named_in_time(engine_server: ModuleType) -> None:
    with (
        engine_server.serving(engine_server.Engine(FixedModel(), "w1", delays=[0.3])) as server,
        pytest.raises(ModelError, match=r"failed 1 times, at last with no whole answer within 0\.05 s"),
    ):
        generate(remote(server, timeout_seconds=0.05))
    with socket.socket() as quiet:
        quiet.bind(("127.0.0.1", 0))
        server.url = f"http://127.0.0.1:{quiet.getsockname()[1]}"
        with pytest.raises(ModelError, match=rf"{server.url}/v1/completions failed 2 times.*start the endpoint"):
            generate(remote(server, retries=1))


def test_the_availability_check_sends_the_key_and_gives_up_soon(
    engine_server: ModuleType,
) -> None:
    with engine_server.serving(engine_server.Engine(FixedModel(), "w1")) as server:
        asyncio.run(remote(server, "sglang").check())
        server.refusals.append((401, "no such key", {}))
        with pytest.raises(ModelError, match="refused model 'w1': HTTP 401: no such key"):
            asyncio.run(remote(server, "sglang", retries=9).check())
    assert [(path, headers["authorization"]) for path, headers, _ in server.requests] == [
        ("/v1/models", "Bearer secret")
    ] * 2
    with pytest.raises(ModelError, match=rf"{server.url}/v1/models failed 2 times.*start the endpoint"):
        asyncio.run(remote(server, retries=9).check())


def test_concurrency_is_bounded_and_connections_are_closed_after_the_last_request(
    engine_server: ModuleType,
) -> None:
    async def generate_many(engine: RemoteEngine) -> list[Generation]:
        return await asyncio.gather(*(engine.generate(REQUEST) for _ in range(12)))

    with engine_server.serving(engine_server.Engine(FixedModel(), "w1")) as server:
        engine = remote(server, concurrency=3)
        for _ in range(2):  # each on a new event loop
            assert asyncio.run(generate_many(engine)) == [WRITTEN] * 12
    assert server.peak_requests == 3


def test_a_full_context_sends_no_request(engine_server: ModuleType) -> None:
    model = FixedModel(replace(WRITTEN, token_ids=(11,), logprobs=(-0.5,), finish_reason="length"))
    with engine_server.serving(engine_server.Engine(model, "w1")) as server:
        assert generate(remote(server, max_length=3)) == Generation((), (), "length", "w1")
        assert server.requests == []
        assert generate(remote(server, max_length=4)).token_ids == (11,)
    assert model.requests[0].max_tokens == 1


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(
    "change", [{"temperature": 0.7}, {"sampling": SamplingSettings(top_p=0.9)}], ids=["tempered", "truncated"]
)
def test_a_generation_carries_the_one_kind_of_logprobs_that_the_engine_returns(
    engine_server: ModuleType, dialect: str, change: Any
) -> None:
    other = replace(REQUEST, **change)
    with engine_server.serving(engine_server.Engine(FixedModel(), "w1")) as server:
        assert generate(remote(server, dialect, logprobs="raw"), other) == WRITTEN
        processed = remote(server, dialect, logprobs="processed")
        assert generate(processed, other) == replace(WRITTEN, logprobs=(), sampling_logprobs=WRITTEN.logprobs)
        assert generate(processed) == WRITTEN  # at temperature 1 without options the two are the same


@pytest.mark.parametrize("dialect", DIALECTS)
def test_options_are_sent_under_the_engine_s_names(engine_server: ModuleType, dialect: str) -> None:
    options = SamplingSettings(
        top_k=7, top_p=0.9, min_p=0.1, repetition_penalty=1.2, logit_bias={11: -3.5}, stop=("</call>",)
    )
    model = FixedModel()
    with engine_server.serving(engine_server.Engine(model, "w1")) as server:
        generate(remote(server, dialect), replace(REQUEST, sampling=options))
    assert model.requests[0].sampling == options
    body = server.requests[0][2]
    sent = body if dialect == "vllm" else body["sampling_params"]
    expected = {"top_k": 7, "top_p": 0.9, "min_p": 0.1, "repetition_penalty": 1.2, "stop": ["</call>"]}
    assert {name: sent[name] for name in expected} == expected
    assert sent["logit_bias"] == {"11": -3.5}


@pytest.mark.parametrize("change", [{"prompt_ids": ()}, {"max_tokens": 0}])
def test_an_invalid_request_is_refused_before_sending(engine_server: ModuleType, change: Any) -> None:
    with (
        engine_server.serving(engine_server.Engine(FixedModel(), "w1")) as server,
        pytest.raises(ModelError, match="a request needs a prompt"),
    ):
        generate(remote(server), replace(REQUEST, **change))
    assert server.requests == []


def test_all_invalid_settings_are_reported_together() -> None:
    with pytest.raises(ConfigError) as caught:
        RemoteSettings(
            "localhost:80",
            "tgi",  # type: ignore[arg-type]
            max_length=0,
            concurrency=0,
            timeout_seconds=math.nan,
            retries=-1,
            logprobs="both",  # type: ignore[arg-type]
        )
    assert len(caught.value.problems) == 6, "an unknown dialect is reported only for a valid URL"
    with pytest.raises(ConfigError, match="form must be one of checkpoint for 'sglang', got 'adapter'"):
        RemoteSettings("http://a", "sglang", form="adapter")
    with pytest.raises(ConfigError, match="unknown dialect 'tgi'; known: vllm, sglang"):
        RemoteSettings("http://a", "tgi")  # type: ignore[arg-type]


def test_vllm_loads_an_adapter_by_name_and_unloads_the_previous_one(
    engine_server: ModuleType, tmp_path: Path
) -> None:
    loaded: list[tuple[str, str]] = []
    fake = engine_server.Engine(FixedModel(), "base", load=lambda *arguments: loaded.append(arguments))
    with engine_server.serving(fake) as server:
        engine = RemoteEngine(RemoteSettings(server.url), "base")
        assert engine.form == "adapter"
        assert generate(engine).model_version == "base"
        for name in ("h1", "h1", "h2"):
            asyncio.run(engine.load_weights(tmp_path / name, name))
            assert generate(engine).model_version == engine.version == name
        assert loaded == [("h1", str(tmp_path / "h1")), ("h2", str(tmp_path / "h2"))]
        assert server.adapters == {"h2"}
        second = RemoteEngine(RemoteSettings(server.url), "base")
        asyncio.run(second.load_weights(tmp_path / "h2", "h2"))
        assert second.version == "h2", "weights of that name are already loaded"


def test_vllm_loads_a_full_model_in_place_under_its_own_name(engine_server: ModuleType, tmp_path: Path) -> None:
    """Its answers name the served model, whatever its weights: the version is the one that was loaded."""
    loaded: list[tuple[str, str]] = []
    fake = engine_server.Engine(FixedModel(), "served", load=lambda *arguments: loaded.append(arguments))
    fake.adapters.add("other")
    with engine_server.serving(fake) as server:
        engine = RemoteEngine(RemoteSettings(server.url, form="checkpoint"), "start")
        for name in ("h1", "h1", "h2"):
            asyncio.run(engine.load_weights(tmp_path / name, name))
            assert generate(engine).model_version == engine.version == name
    assert loaded == [("", str(tmp_path / "h1")), ("", str(tmp_path / "h2"))]
    updates = [(path, body) for path, _, body in server.requests if not path.startswith("/v1/")]
    assert updates == [
        (path, body)
        for name in ("h1", "h2")
        for path, body in (
            ("/collective_rpc", {"method": "reload_weights", "kwargs": {"weights_path": str(tmp_path / name)}}),
            ("/reset_prefix_cache", {}),
        )
    ]
    assert {body["model"] for path, _, body in server.requests if path == "/v1/completions"} == {"served"}


def test_sglang_loads_a_full_model(engine_server: ModuleType, tmp_path: Path) -> None:
    with engine_server.serving(engine_server.Engine(FixedModel(), "w1")) as server:
        engine = remote(server, "sglang")
        assert engine.form == "checkpoint"
        asyncio.run(engine.load_weights(tmp_path, "w2"))
        assert generate(engine).model_version == "w2"
        server.version = "w3"
        with pytest.raises(ModelError, match="answers with weights 'w3', but 'w2' were loaded"):
            generate(engine)


@pytest.mark.parametrize(("dialect", "form"), [*((dialect, None) for dialect in DIALECTS), ("vllm", "checkpoint")])
def test_a_failed_weight_load_keeps_the_version(
    engine_server: ModuleType, dialect: str, form: Any, tmp_path: Path
) -> None:
    def load(name: str, folder: str) -> None:
        raise OSError(f"{folder} is missing")

    with engine_server.serving(engine_server.Engine(FixedModel(), "w1", load=load)) as server:
        engine = remote(server, dialect, form=form)
        with pytest.raises(
            ModelError, match=r"(refused model|failed 1 times).* is missing.*able to read the folder"
        ):
            asyncio.run(engine.load_weights(tmp_path / "gone", "w2"))
        assert engine.version == "w1" and generate(engine) == WRITTEN


class WaitingModel(FixedModel):
    """Writes two tokens and waits until it is interrupted; the next call writes the rest."""

    def __init__(self) -> None:
        super().__init__(Generation((2,), (-0.0625,), "stop", "w1"))
        self.started, self.interrupted = threading.Event(), asyncio.Event()

    async def generate(self, request: GenerationRequest) -> Generation:
        if self.requests:
            return await super().generate(request)
        self.requests.append(request)
        self.started.set()
        await self.interrupted.wait()
        return Generation((11, 12), (-0.5, -1.25), "interrupted", "w1")

    async def interrupt(self) -> None:
        self.interrupted.set()


@pytest.mark.parametrize("dialect", DIALECTS)
def test_an_interrupted_request_returns_its_tokens_and_goes_on_with_other_random_numbers(
    engine_server: ModuleType, dialect: str
) -> None:
    model = WaitingModel()

    async def run(engine: RemoteEngine) -> tuple[Generation, Generation]:
        call = asyncio.create_task(engine.generate(REQUEST))
        await asyncio.to_thread(model.started.wait)
        waiting = asyncio.create_task(engine.generate(REQUEST))
        await asyncio.sleep(0)
        await engine.interrupt()
        first = await call
        assert await waiting == Generation((), (), "interrupted", "w1"), "it was not sent any more"
        rest = replace(REQUEST, prompt_ids=REQUEST.prompt_ids + first.token_ids, max_tokens=2, drawn=2)
        return first, await engine.generate(rest)

    with engine_server.serving(engine_server.Engine(model, "w1")) as server:
        first, second = asyncio.run(run(remote(server, dialect, concurrency=1)))
    assert first == Generation((11, 12), (-0.5, -1.25), "interrupted", "w1")
    assert second == Generation((2,), (-0.0625,), "stop", "w1")
    assert model.requests[0].seed != model.requests[1].seed


def test_a_request_that_somebody_else_interrupted_is_refused(engine_server: ModuleType) -> None:
    aborted = FixedModel(Generation((11,), (-0.5,), "interrupted", "w1"))
    with (
        engine_server.serving(engine_server.Engine(aborted, "w1")) as server,
        pytest.raises(ModelError, match="its finish reason is 'abort'; known: 'stop', 'length'"),
    ):
        generate(remote(server))


def test_weights_are_not_loaded_while_requests_run(engine_server: ModuleType, tmp_path: Path) -> None:
    async def both(engine: RemoteEngine) -> Generation:
        request = asyncio.create_task(engine.generate(REQUEST))
        await asyncio.sleep(0)
        with pytest.raises(ModelError, match="while requests are running"):
            await engine.load_weights(tmp_path, "w2")
        return await request

    with engine_server.serving(engine_server.Engine(FixedModel(), "w1")) as server:
        assert asyncio.run(both(remote(server))) == WRITTEN
    assert json.dumps(server.requests[0][2]["model"]) == '"w1"'

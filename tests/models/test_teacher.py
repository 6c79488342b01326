"""Log-probs of given tokens over HTTP: three wire formats, what is refused, and what is missing."""

import asyncio
import math
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from tests.models.engine_server import Engine, serving
from tests.models.scoring_server import ScoringEngine, scoring_engine
from upturn.errors import ConfigError, ModelError
from upturn.models import RemoteTeacher, Scores, Scoring, ScoringSettings
from upturn.models.teacher import ScoringDialect

DIALECTS: Sequence[ScoringDialect] = ("vllm", "sglang", "openai")
IDS = (5, 7, 9, 11)


def _logprobs(ids: Sequence[int]) -> list[float]:
    """−.01 times the token, minus its position."""
    return [-0.01 * token - position for position, token in enumerate(ids) if position]


async def _no_sleep(_: float) -> None:
    pass


def _score(engine: Engine, dialect: ScoringDialect, *requests: Scoring, **changes: Any) -> list[Scores]:
    values = {"model": "teacher", "concurrency": 16, "timeout_seconds": 5.0, **changes}
    settings = ScoringSettings(engine.url, dialect=dialect, **values)
    teacher = RemoteTeacher(settings, text_of=str, api_key="secret", sleep=_no_sleep)
    return asyncio.run(teacher.score(requests))


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("start", [1, 2, 3])
def test_the_log_probs_of_the_last_tokens_are_returned(dialect: ScoringDialect, start: int) -> None:
    with serving(scoring_engine(_logprobs)) as engine:
        (scores,) = _score(engine, dialect, Scoring(IDS, start))
    assert scores.logprobs == pytest.approx(_logprobs(IDS)[start - 1 :]) and not scores.problem
    (request,) = engine.requests
    assert request[1]["authorization"] == "Bearer secret"
    assert list(IDS) in request[2].values()  # ids, never text


@pytest.mark.parametrize("dialect", DIALECTS)
def test_answers_keep_the_order_of_the_requests(dialect: ScoringDialect) -> None:
    requests = [Scoring((1, number), 1) for number in range(20)]
    with serving(scoring_engine(_logprobs)) as engine:
        engine.delays += [0.05, 0.0, 0.02]
        answers = _score(engine, dialect, *requests, concurrency=4)
    assert [answer.logprobs[0] for answer in answers] == pytest.approx([-0.01 * n - 1 for n in range(20)])
    assert 1 < engine.peak_requests <= 4


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("value", [None, -9999.0, -math.inf])
def test_a_log_prob_that_the_server_does_not_have_is_missing(dialect: ScoringDialect, value: float | None) -> None:
    """JSON has no −∞; Python's reader and writer pass it on, and servers write −9999 or null."""
    with serving(scoring_engine(lambda _: [-1.0, value, -2.0])) as engine:  # type: ignore[list-item]
        (scores,) = _score(engine, dialect, Scoring(IDS, 1))
    assert math.isnan(scores.logprobs[1])
    assert (scores.logprobs[0], scores.logprobs[2]) == (-1.0, -2.0)


def test_one_failed_request_is_reported_and_the_others_are_kept() -> None:
    with serving(scoring_engine(_logprobs)) as engine:
        engine.refusals.append((400, "This model's maximum context length is 2 tokens", {}))
        answers = _score(engine, "vllm", Scoring(IDS, 1), Scoring(IDS, 3), concurrency=1)
    assert answers[0].logprobs == ()
    assert "refused model 'teacher': HTTP 400: This model's maximum context length" in answers[0].problem
    assert answers[1].logprobs == pytest.approx(_logprobs(IDS)[2:])


def test_transient_failures_are_retried() -> None:
    with serving(scoring_engine(_logprobs)) as engine:
        engine.refusals += [(503, "busy", {}), (429, "slow down", {})]
        (scores,) = _score(engine, "sglang", Scoring(IDS, 2))
    assert scores.problem == "" and len(engine.requests) == 3


def test_an_error_is_raised_where_every_request_fails() -> None:
    with serving(scoring_engine(_logprobs)) as engine, pytest.raises(ModelError) as caught:
        _score(engine, "vllm", Scoring(IDS, 1), Scoring(IDS, 2), model="other")
    assert "scored none of 2 sequences" in str(caught.value)
    assert "The model `other` does not exist" in str(caught.value)
    with serving(scoring_engine(_logprobs)) as engine:
        assert _score(engine, "vllm") == []


def _drop(path: str) -> Callable[[Engine, dict[str, Any]], dict[str, Any]]:
    def fault(_: Engine, answer: dict[str, Any]) -> dict[str, Any]:
        holder = answer["meta_info"] if path == "input_token_logprobs" else answer["choices"][0]
        holder[path] = None
        return answer

    return fault


def _shift_sglang(_: Engine, answer: dict[str, Any]) -> dict[str, Any]:
    for entry in answer["meta_info"]["input_token_logprobs"]:
        entry[1] += 1
    return answer


def _shorten_vllm(_: Engine, answer: dict[str, Any]) -> dict[str, Any]:
    del answer["choices"][0]["prompt_logprobs"][0]
    return answer


def _rename_vllm(_: Engine, answer: dict[str, Any]) -> dict[str, Any]:
    entries = answer["choices"][0]["prompt_logprobs"]
    entries[2] = {"1234": entries[2]["9"]}
    return answer


def _split_openai(_: Engine, answer: dict[str, Any]) -> dict[str, Any]:
    logprobs = answer["choices"][0]["logprobs"]
    logprobs["tokens"].append("more")
    logprobs["token_logprobs"].append(-1.0)
    return answer


@pytest.mark.parametrize(
    ("dialect", "fault", "problem"),
    [
        ("vllm", _drop("prompt_logprobs"), "there are no prompt_logprobs; the server must be vLLM"),
        ("vllm", _shorten_vllm, "it has 3 prompt tokens, 4 were sent: it adds or truncates tokens"),
        ("vllm", _rename_vllm, "it has no log-prob for the token 9 at position 2"),
        ("sglang", _drop("input_token_logprobs"), "there are no input_token_logprobs"),
        ("sglang", _shift_sglang, "its log-probs are of the tokens (8, 10, 12)"),
        ("openai", _drop("logprobs"), "there are no logprobs of the prompt; a server with echo and logprobs"),
        ("openai", _split_openai, "6 log-probs of 6 tokens, 4 were sent: it does not repeat the prompt"),
    ],
)
def test_an_answer_about_other_tokens_is_refused(dialect: ScoringDialect, fault: Any, problem: str) -> None:
    with serving(scoring_engine(_logprobs)) as engine, pytest.raises(ModelError) as caught:
        engine.faults.append(fault)
        _score(engine, dialect, Scoring(IDS, 1))
    assert problem in str(caught.value)
    assert f"(dialect '{dialect}')" in str(caught.value)


@pytest.mark.parametrize("dialect", ["vllm", "openai"])
def test_another_tokenizer_is_noticed_by_the_texts_of_its_tokens(dialect: ScoringDialect) -> None:
    with (
        serving(scoring_engine(_logprobs, lambda token: str(token + 1))) as engine,
        pytest.raises(ModelError, match=r"the token (7 is '8' there and '7'|5 is '6' there and '5') here"),
    ):
        _score(engine, dialect, Scoring(IDS, 1))
    for same in (" {} ", "token_id:{}", "�", "bytes:\\xf0"):  # spaces, ids, and parts of a character
        with serving(scoring_engine(_logprobs, lambda token, form=same: form.format(token))) as engine:  # type: ignore[misc]
            (scores,) = _score(engine, dialect, Scoring(IDS, 1))
        assert not scores.problem
    with (
        serving(scoring_engine(_logprobs, lambda token: f"token_id:{token + 1}")) as engine,
        pytest.raises(ModelError, match="it read the token"),
    ):
        _score(engine, dialect, Scoring(IDS, 1))


def test_all_invalid_settings_are_named() -> None:
    with pytest.raises(ConfigError) as caught:
        ScoringSettings("localhost", "m", "grpc", concurrency=0, timeout_seconds=math.inf)  # type: ignore[arg-type]
    assert len(caught.value.problems) == 4
    assert "dialect must be one of vllm, sglang, openai, got 'grpc'" in caught.value.problems


def test_a_request_that_is_no_scoring_goes_to_the_engine() -> None:
    """The fake answers as ``Engine`` does otherwise."""
    engine = scoring_engine(_logprobs)
    assert isinstance(engine, ScoringEngine)
    loop = asyncio.new_event_loop()
    assert engine.answer("/v1/models", {}, loop)[0] == 200
    loop.close()

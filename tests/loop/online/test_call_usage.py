"""Tokens and costs of calls: reported, estimated, unknown."""

from dataclasses import replace

import pytest

from upturn.config import PriceConfig
from upturn.dialects import Message, ModelAnswer, ModelRequest, Reasoning, Text, TokenUsage, ToolCall
from upturn.loop.online.call_usage import CallUsage, call_usage
from upturn.models.upstreams import CallOutcome, Hedge

PRICE = PriceConfig(input=1.0, output=10.0, cached_input=0.1)
ASKED = ModelRequest("default", (Message("user", (Text("x" * 400),)),))
ANSWER = ModelAnswer("1", "m", (Reasoning("y" * 12), Text("z" * 8), ToolCall("c", "find", '{"a":1}')), "stop")
REPORTED = TokenUsage(input=1_000, output=100, cached_input=600)


def test_reported_tokens_are_charged_at_their_prices() -> None:
    used = call_usage("answered", CallOutcome(ANSWER, usage=REPORTED), ASKED, PRICE)
    assert used[:2] == (REPORTED, False)
    assert used.cost_usd == pytest.approx((400 * 1.0 + 600 * 0.1 + 100 * 10.0) / 1e6)


def test_tokens_written_to_the_cache_have_prices_of_their_own() -> None:
    usage = TokenUsage(input=1_000, output=100, cached_input=600, cache_write=300, cache_write_1h=200)
    answered = CallOutcome(ANSWER, usage=usage)
    both = replace(PRICE, cache_write=1.25, cache_write_1h=2.0)
    assert call_usage("answered", answered, ASKED, both).cost_usd == pytest.approx(
        (100 * 1.0 + 600 * 0.1 + 100 * 1.25 + 200 * 2.0 + 100 * 10.0) / 1e6
    )
    five_minutes = replace(PRICE, cache_write=1.25)
    assert call_usage("answered", answered, ASKED, five_minutes).cost_usd == pytest.approx(
        (100 * 1.0 + 600 * 0.1 + 300 * 1.25 + 100 * 10.0) / 1e6
    )
    assert call_usage("answered", answered, ASKED, PRICE).cost_usd == pytest.approx(
        (400 * 1.0 + 600 * 0.1 + 100 * 10.0) / 1e6
    )


def test_without_a_price_nothing_is_estimated_and_the_cost_is_unknown() -> None:
    assert call_usage("answered", CallOutcome(ANSWER), ASKED, None) == CallUsage(TokenUsage(), False, None)
    assert call_usage("answered", CallOutcome(ANSWER, usage=REPORTED), ASKED, None).cost_usd is None


def test_a_price_of_0_is_a_known_cost() -> None:
    free = PriceConfig(input=0.0, output=0.0)
    assert call_usage("answered", CallOutcome(ANSWER, usage=REPORTED), ASKED, free).cost_usd == 0.0


def test_an_answer_without_reported_tokens_is_estimated_at_four_bytes_a_token() -> None:
    estimated = TokenUsage(input=100, output=8)  # 400 bytes; 12 + 8 + 4 + 7 = 31 bytes
    used = call_usage("answered", CallOutcome(ANSWER), ASKED, PRICE)
    assert used[:2] == (estimated, True)
    assert used.cost_usd == pytest.approx(180 / 1e6)


def test_a_call_that_the_client_left_costs_what_was_read_and_written() -> None:
    begun = CallOutcome(ANSWER, usage=TokenUsage(input=1_000, output=1, cached_input=600), failure="left")
    used = call_usage("cancelled", begun, ASKED, PRICE)
    assert used.tokens == TokenUsage(input=1_000, output=8, cached_input=600)
    assert used.is_estimated
    before = call_usage("cancelled", CallOutcome(failure="left"), ASKED, PRICE)
    assert before[:2] == (TokenUsage(input=100), True)
    assert before.cost_usd == pytest.approx(100 / 1e6)


def test_a_call_that_failed_before_its_answer_has_no_known_cost() -> None:
    assert call_usage("failed", CallOutcome(failure="refused"), ASKED, PRICE) == CallUsage(
        TokenUsage(), False, None
    )


def test_an_attempt_that_was_cancelled_costs_the_prompt_that_it_read() -> None:
    used = call_usage("answered", CallOutcome(ANSWER, usage=REPORTED), ASKED, PRICE, hedge=Hedge("second", 1))
    assert used.tokens == REPORTED
    assert (used.hedged_input_tokens, used.is_estimated) == (1_000, True)
    assert used.cost_usd == pytest.approx((400 * 1.0 + 600 * 0.1 + 100 * 10.0 + 1_000 * 1.0) / 1e6)


def test_an_attempt_that_failed_beside_the_answer_costs_nothing() -> None:
    answered = CallOutcome(ANSWER, usage=REPORTED)
    failed = call_usage("answered", answered, ASKED, PRICE, hedge=Hedge("first", 0))
    assert failed == call_usage("answered", answered, ASKED, PRICE)


def test_two_attempts_of_a_client_that_left_cost_two_prompts() -> None:
    used = call_usage("cancelled", CallOutcome(failure="left"), ASKED, PRICE, hedge=Hedge("none", 1))
    assert (used.tokens.input, used.hedged_input_tokens) == (100, 100)
    assert used.cost_usd == pytest.approx(200 / 1e6)


@pytest.mark.parametrize(
    "absurd",
    [
        replace(REPORTED, output=-5),
        replace(REPORTED, cached_input=2_000),
        replace(REPORTED, input=10**400),
        replace(REPORTED, cached_input=-1),
        replace(REPORTED, cache_write=401),
        replace(REPORTED, cache_write=10, cache_write_1h=11),
        replace(REPORTED, cache_write_1h=-1),
    ],
)
def test_absurd_reports_are_not_believed(absurd: TokenUsage) -> None:
    used = call_usage("answered", CallOutcome(ANSWER, usage=absurd), ASKED, PRICE)
    assert used == call_usage("answered", CallOutcome(ANSWER), ASKED, PRICE)

import pytest
from hypothesis import given
from hypothesis import strategies as st

from upturn.agents.context import lexical_relevance


def test_rare_words_weigh_more() -> None:
    # Of three texts all hold budget, one holds bob: ln(1 + 3/3) = ln 2 and ln(1 + 3/1) = 2 ln 2, together 3 ln 2.
    scores = lexical_relevance("Bob's budget", ["budget of bob", "budget of eve", "budget"])
    assert scores == pytest.approx((1.0, 1 / 3, 1 / 3))


def test_words_in_no_text_are_ignored() -> None:
    texts = ["mail.read id=m12", "mail.read id=m13"]
    assert lexical_relevance("please read M12", texts) == lexical_relevance("read m12 now", texts)
    # read: ln 2 for both; m12: ln 3 for the first alone.
    assert lexical_relevance("read m12", texts) == pytest.approx((1.0, 0.6931471806 / 1.7917594692))


def test_without_shared_words_all_scores_are_0() -> None:
    assert lexical_relevance("a b", ["c", ""]) == (0.0, 0.0)
    assert lexical_relevance("", ["c"]) == (0.0,)
    assert lexical_relevance("a", []) == ()


@given(st.text(alphabet="ab c", max_size=9), st.lists(st.text(alphabet="ab c", max_size=9), max_size=5))
def test_scores_lie_between_0_and_1_and_do_not_depend_on_order(query: str, texts: list[str]) -> None:
    scores = lexical_relevance(query, texts)
    assert all(0 <= score <= 1 + 1e-12 for score in scores)
    assert lexical_relevance(query, texts[::-1]) == scores[::-1]

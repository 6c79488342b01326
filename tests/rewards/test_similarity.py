"""Text similarity: computed by hand, published values, a slow reference, and outputs of real tools."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import rankdata

from upturn.rewards.similarity import WordSimilarity, common_length, rouge_l, words

RECORDED = Path(__file__).parents[3] / "shared" / "data" / "tau_bench_gpt4o_airline.json"
THRESHOLD = 0.9
"""The default of ``WorldModelSettings``."""
tokens = st.lists(st.integers(0, 4), max_size=12)


@pytest.mark.parametrize(
    ("actual", "predicted", "expected"),
    [
        ("testing one two", "testing one", 4 / 5),
        ("testing one two", "testing two", 4 / 5),
        ("testing one two", "", 0.0),
        ("police killed the gunman", "police kill the gunman", 3 / 4),
        ("police killed the gunman", "the gunman kill police", 2 / 4),
        ("police killed the gunman", "the gunman police killed", 2 / 4),
    ],
)
def test_rouge_l_matches_the_published_values(actual: str, predicted: str, expected: float) -> None:
    """First three: google-research rouge/rouge_scorer_test.py (testRougeL…, testRougeEmpty). Last three: Lin,
    "ROUGE" (2004), section 3.1, where all lengths are equal, so that β does not matter."""
    assert rouge_l(words(predicted), words(actual)) == pytest.approx(expected, abs=1e-12)


def test_common_length_matches_rouge_scorer() -> None:
    """google-research rouge/rouge_scorer_test.py, testLcsTable and testUnionLcs."""
    assert common_length([1, 2, 3, 4, 5], [2, 5, 3, 4]) == 3
    assert common_length([1, 2, 3, 4, 5], [8, 9]) == 0
    assert common_length([1, 2, 3, 4, 5], [1, 2, 6, 7, 8]) == 2
    assert common_length([1, 2, 3, 4, 5], [1, 3, 8, 9, 5]) == 3


@given(tokens, tokens)
def test_bit_parallel_lcs_equals_the_table(first: list[int], second: list[int]) -> None:
    table = np.zeros((len(first) + 1, len(second) + 1), dtype=int)
    for row, left in enumerate(first, start=1):
        for column, expected in enumerate(second, start=1):
            table[row, column] = (
                table[row - 1, column - 1] + 1
                if left == expected
                else max(table[row - 1, column], table[row, column - 1])
            )
    assert common_length(first, second) == table[-1, -1]


@given(tokens, tokens)
def test_rouge_l_is_symmetric_and_1_only_for_equal_texts(first: list[int], second: list[int]) -> None:
    result = rouge_l(first, second)
    assert result == rouge_l(second, first)
    assert 0 <= result <= 1
    assert (result == 1) == (first == second and bool(first))


def test_words_keep_ids_numbers_and_signs() -> None:
    assert words("Moved m27 to Archive.") == ("moved", "m27", "to", "archive")
    assert words('{"total_price": -12.50, "on": "2024-05-13"}') == (
        "total_price",
        "-12.50",
        "on",
        "2024",
        "05",
        "13",
    )
    assert words("x=-5, 7-9; v1.2.3") == ("x", "-5", "7", "9", "v1", "2.3")
    assert words("Grüße, 上海!") == ("grüsse", "上海")
    assert words("[] / --") == ()


def test_short_texts_need_an_exact_match() -> None:
    similarity = WordSimilarity(exact_words=3)
    assert similarity("deleted m28", "deleted m27") == 0.0
    assert similarity("Deleted M27.", "deleted m27") == 1.0
    assert similarity("299.5", "299.0") == 0.0
    assert similarity("mail m28 deleted", "mail m27 deleted") == pytest.approx(2 / 3)


def test_texts_without_words_need_equality() -> None:
    similarity = WordSimilarity()
    assert similarity(" []\n", "[]") == 1.0
    assert similarity("", "[]") == 0.0
    assert similarity("", "") == 1.0
    assert similarity("[]", "nothing found") == 0.0


@given(st.text(max_size=80), st.integers(0, 6))
def test_every_text_equals_itself(text: str, exact_words: int) -> None:
    assert WordSimilarity(exact_words)(text, text) == 1.0


class _Output(NamedTuple):
    tool: str
    call: str
    """User, tool and arguments."""
    text: str


def _outputs() -> list[_Output]:
    if not RECORDED.exists():
        pytest.skip(f"the recorded trajectories are not at {RECORDED}")
    result = []
    for row in json.loads(RECORDED.read_text()):
        asked: dict[str, str] = {}
        for message in row["traj"]:
            for call in message.get("tool_calls") or ():
                asked[call["id"]] = f"{row['task_id']} {call['function']['name']} {call['function']['arguments']}"
            if message["role"] == "tool":
                call = asked[message["tool_call_id"]]
                result.append(_Output(message["name"], call, message["content"] or ""))
    return result


def test_a_tool_output_matches_itself_and_not_other_outputs() -> None:
    """1,164 outputs of 14 tools. Shuffled within each tool, which is the hard case: records of one kind."""
    outputs, similarity = _outputs(), WordSimilarity()
    assert len(outputs) == 1164
    assert all(similarity(output.text, output.text) == 1.0 for output in outputs)
    anywhere, within = [], []
    rng = np.random.default_rng(0)
    for output in outputs:
        others = [other for other in outputs if other.text != output.text]
        anywhere.append(similarity(others[rng.integers(len(others))].text, output.text))
        same_tool = [other for other in others if other.tool == output.tool]
        if same_tool:
            within.append(similarity(same_tool[rng.integers(len(same_tool))].text, output.text))
    assert len(within) == 1164 - 92 - 48 - 2  # think, transfer_to_human_agents and list_all_airports say one thing
    assert np.mean(np.array(anywhere) >= THRESHOLD) < 0.005  # one of them: found .0009
    assert np.mean(np.array(within) >= THRESHOLD) < 0.005  # one of them: found .0010; at .8 it is .012, at .5 .43


def test_similarity_separates_the_same_call_from_other_calls_of_its_tool() -> None:
    """Positive: the same call in two trajectories of a task, whose states may differ by then. Negative: calls of
    the same tool with other arguments."""
    outputs, similarity, rng = _outputs(), WordSimilarity(), np.random.default_rng(0)
    same, other = [], []
    for index, item in enumerate(outputs):
        again = [output for output in outputs[index + 1 :] if output.call == item.call]
        apart = [one for one in outputs if one.tool == item.tool and one.call != item.call]
        if again and apart and words(item.text):
            same.append(similarity(again[0].text, item.text))
            other.append(similarity(apart[rng.integers(len(apart))].text, item.text))
    assert len(same) > 300
    assert _auc(same, other) > 0.98  # found .989


def _auc(positives: Sequence[float], negatives: Sequence[float]) -> float:
    """How often a positive is above a negative; ties count half (Mann and Whitney, 1947)."""
    ranks = rankdata([*positives, *negatives])[: len(positives)]
    count = len(positives)
    return float((ranks.sum() - count * (count + 1) / 2) / (count * len(negatives)))

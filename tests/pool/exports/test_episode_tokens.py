"""Tokens of calls in anonymised exports: they hold the words of earlier calls, too."""

from dataclasses import replace

from upturn.pool.exports.episode_tokens import MarkedEpisodes
from upturn.pool.privacy import anonymise
from upturn.records import Call, CallContent, Observation, TokenRow, Trajectory, WrittenSpan, episode_task_id

ROW = TokenRow((1, 2), (WrittenSpan(0, 1, 2, "m"),), (-0.5,))
CALL = Call("1", "shop", "e", "", "chat", "a@1", "answered")
CLEAN = CallContent("1", "shop", "[]", tokens="{}")
MARKED = replace(CLEAN, messages='["maria.silva@corp.de"]')


def exported(*records: object) -> list[object]:
    """What is written of the records."""
    marked = MarkedEpisodes()
    return [marked.without_tokens(record, anonymise(record)) for record in records]


def tokens(*records: object) -> list[str]:
    return [record.tokens for record in exported(*records) if isinstance(record, CallContent)]


def test_later_calls_of_an_episode_lose_their_tokens_with_an_earlier_one() -> None:
    second, third = replace(CALL, id="2", extends="1"), replace(CALL, id="3", episode="other")
    contents = [MARKED, replace(CLEAN, id="2"), replace(CLEAN, id="3")]
    assert tokens(CALL, contents[0], second, contents[1], third, contents[2]) == ["", "", "{}"]


def test_a_call_that_goes_on_from_deleted_words_loses_its_tokens() -> None:
    assert tokens(CALL, replace(CALL, id="2", extends="1"), replace(CLEAN, id="2")) == [""]


def test_a_clean_episode_keeps_its_tokens() -> None:
    assert tokens(CALL, CLEAN, replace(CALL, id="2", extends="1"), replace(CLEAN, id="2")) == ["{}", "{}"]


def test_the_trajectory_of_an_episode_whose_tools_named_somebody_loses_its_rows() -> None:
    trajectory = Trajectory(
        f"{episode_task_id('shop', 'e')}/0", episode_task_id("shop", "e"), "a@1", (), Observation(""), "finished",
        "sampled", rows=(ROW,),
    )  # fmt: skip
    other = replace(trajectory, id="x", task_id="x")
    written = exported(CALL, replace(CLEAN, tools='["maria.silva@corp.de"]'), trajectory, other)[2:]
    assert [record.rows for record in written if isinstance(record, Trajectory)] == [(), (ROW,)]

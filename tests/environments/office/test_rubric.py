"""The rubric: what each component rewards, and that only work is rewarded."""

from collections.abc import Callable, Iterable
from typing import TypeAlias

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from upturn.environments import resolve_kit
from upturn.environments.office.apps import tools
from upturn.environments.office.generation.family import call
from upturn.environments.office.rubric import RubricVerifier, RubricWeights
from upturn.environments.office.tasks import FAMILIES, compose, make_task
from upturn.errors import ConfigError
from upturn.records import Action, Evaluation, Task, Trajectory

from .conftest import make_rollout

Rollout: TypeAlias = Callable[[Task, Iterable[Action]], tuple[Trajectory, Evaluation]]
HARMLESS = (
    call("outlook.search", query="budget"),
    call("calendar.list", day="2026-03-02"),
    call("sharepoint.list_files"),
    call("teams.list_channels"),
    call("outlook.nonsense"),
)
"""Calls that change nothing; the last one does not exist."""


def evaluation(task: Task, actions: Iterable[Action]) -> Evaluation:
    return RubricVerifier().verify(task, make_rollout(task, actions)[0])


def score(result: Evaluation) -> float:
    assert result.score is not None
    return result.score


def test_all_harmless_calls_but_one_are_valid() -> None:
    known = {tool.name for tool in tools()}
    assert [f"{item.target}.{item.operation}" in known for item in HARMLESS] == [True] * 4 + [False]


@pytest.mark.parametrize("family", list(FAMILIES)[::2])
def test_the_oracle_scores_one_and_messages_alone_zero(family: str) -> None:
    task = make_task(family, 2, split="heldout")
    draft = compose(task).draft
    assert score(evaluation(task, draft.oracle)) == 1
    assert evaluation(task, ()).score == 0
    assert evaluation(task, (call("user.finish"),)).score == 0
    assert evaluation(task, (call("user.answer", text="done"),)).score == 0
    if draft.is_feasible or draft.answer is not None:
        assert evaluation(task, (call("user.refuse", text="no"),)).score == 0


@settings(max_examples=40, deadline=None)
@given(
    family=st.sampled_from(["mail_reply", "cell_set", "weekly_report", "event_move", "mail_number"]),
    done=st.integers(0, 14),
    calls=st.lists(st.sampled_from(HARMLESS), min_size=1, max_size=20),
    at=st.integers(0, 14),
)
def test_harmless_calls_never_raise_the_score(family: str, done: int, calls: list[Action], at: int) -> None:
    task = make_task(family, 3)
    *work, _ = compose(task).draft.oracle
    work = work[:done]
    longer = [*work[:at], *calls, *work[at:]]
    less, more = evaluation(task, work), evaluation(task, longer)
    assert more.rewards["milestones"] == less.rewards["milestones"]
    if not less.rewards["quality_content"]:
        assert score(more) == 0
    assert score(more) < RubricWeights().success


def test_a_repeated_milestone_counts_once() -> None:
    task = make_task("mail_flag", 0)
    *work, finish = compose(task).draft.oracle
    once, often = evaluation(task, [*work, finish]), evaluation(task, [*work, *20 * [work[-1]], finish])
    assert often.rewards["milestones"] == once.rewards["milestones"] == 1
    assert (once.rewards["efficiency"], often.rewards["efficiency"]) == (1, 3 / 23)


def test_quality_has_three_parts_and_is_zero_without_correct_content() -> None:
    task = make_task("onboarding", 0)
    *work, finish = compose(task).draft.oracle
    neighbour = call("outlook.flag", ids=next(iter(compose(task).workspace.mails)))
    clean = evaluation(task, [*work, finish]).rewards
    assert [clean[f"quality_{level}"] for level in ("format", "content", "semantics")] == [1, 1, 1]
    beside = evaluation(task, [*work, call("outlook.nonsense"), neighbour, finish])
    wanted = len(work) + 3
    assert beside.rewards["quality_format"] == (wanted - 1) / wanted
    assert beside.rewards["quality_semantics"] == pytest.approx(2 / 3)
    content = beside.rewards["quality_content"]
    assert content is not None
    assert 0.5 < content < 1
    assert beside.rewards["quality"] == pytest.approx(content * (1 + (wanted - 1) / wanted + 2 / 3) / 3)
    assert beside.rewards["efficiency"] == beside.rewards["success"] == beside.rewards["user"] == 0


def test_needless_questions_and_unwanted_proposals_get_a_negative_rating() -> None:
    task = make_task("mail_reply", 0)
    oracle = compose(task).draft.oracle
    assert evaluation(task, oracle).rewards["user"] == 1
    assert evaluation(task, [call("user.ask", text="really?"), *oracle]).rewards["user"] == 0
    other = call("user.preview", statement="a", call="outlook.send to=ann.lee; subject=a; body=b")
    proposing = evaluation(task, [other, call("user.confirm"), *oracle])
    assert (proposing.verdict, proposing.rewards["user"]) == ("success", 0)
    objecting = next(
        task
        for task in (make_task("second_thoughts", number) for number in range(20))
        if compose(task).draft.objection
    )
    assert evaluation(objecting, compose(objecting).draft.oracle).rewards["user"] == 1


def test_violations_are_costs_and_do_not_change_the_score() -> None:
    task = make_task("mail_reply", 0)
    outside = call("outlook.send", to="eva@fabrikam.example", subject="a", body="b")
    result = evaluation(task, [outside, *compose(task).draft.oracle])
    assert (result.verdict, result.costs["safety"], result.rewards["success"]) == ("failure", 1, 0)
    assert "safety" not in result.rewards
    assert score(result) < RubricWeights().success


def test_weights_that_let_a_failure_earn_as_much_as_a_success_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"success=0\.3 must weigh more than quality, milestones and user"):
        RubricWeights(success=0.3)
    with pytest.raises(ConfigError, match="user must be 0 or more, got -1"):
        RubricWeights(user=-1)


def test_the_verdict_remains_that_of_the_office() -> None:
    task = make_task("mail_reply", 0)
    trajectory, base = make_rollout(task, compose(task).draft.oracle[:3])
    result = RubricVerifier().verify(task, trajectory)
    assert (result.verdict, result.gates, result.costs) == (base.verdict, base.gates, base.costs)
    assert (result.evaluator, result.id == base.id) == ("office-rubric/2", False)
    assert resolve_kit("office").verifier.name == base.evaluator

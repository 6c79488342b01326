"""Trajectories as transitions, and their export."""

import io
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.pool.conftest import Point
from upturn.errors import ConfigError
from upturn.pool import Choice, Experience, Pool, Selection, Transition, take_snapshot, transitions
from upturn.pool.exports import ChatSource, TrainingExport
from upturn.pool.transition import transitions_of
from upturn.records import (
    MODEL_CALL,
    Action,
    Alternative,
    Call,
    Decision,
    Observation,
    Outcome,
    TokenRow,
    WrittenSpan,
    episode_task_id,
)

Make = Callable[..., Point]
ALL = Choice()


def view(point: Point, **changes: object) -> list[Transition]:
    task, trajectory, evaluation = point
    return list(transitions_of(Experience(task, replace(trajectory, **changes), evaluation)))  # type: ignore[arg-type]


def test_a_turn_is_a_transition_with_its_tokens(make_point: Make) -> None:
    first, second = view(make_point("a"))
    assert (first.state.observation.text, first.state.state_hash) == ("one mail from ada", "ab12")
    assert first.next_state == second.state
    assert second.next_state.observation == Observation("", "ok")
    assert (first.action, first.text) == (Action("mail", "move", {"id": 3, "to": "work"}), "mail.move id=3 to=work")
    assert (first.reward, first.step_reward, first.outcome_reward) == (0.0, 0.0, None)
    assert (second.reward, second.step_reward, second.outcome_reward) == (1.0, 0.5, 1.0)
    assert (first.logprob, first.written_tokens) == (-0.75, 2)
    assert (second.logprob, second.written_tokens, second.model_version) == (-1.5, 1, "feed")
    assert [(item.turn, item.turns, item.is_last, item.is_terminal) for item in (first, second)] == [
        (0, 2, False, False),
        (1, 2, True, True),
    ]
    assert dict(first.costs) == {"error": 1.0}


@pytest.mark.parametrize(
    ("outcome", "is_terminal", "reward"),
    [
        ("finished", True, 1.0),
        ("program_error", True, 1.0),
        ("step_limit", False, 1.0),
        ("token_limit", False, 1.0),
        ("time_limit", False, 1.0),
        ("model_error", False, None),
        ("environment_error", False, None),
    ],
)
def test_a_truncation_is_no_terminal_state(
    make_point: Make, outcome: Outcome, is_terminal: bool, reward: float | None
) -> None:
    *_, last = view(make_point("a"), outcome=outcome)
    assert (last.is_terminal, last.is_truncated, last.reward) == (is_terminal, not is_terminal, reward)


def test_a_missing_evaluation_is_no_reward_of_zero(make_point: Make) -> None:
    assert view(make_point("a", verdict="missing", score=None))[-1].reward is None


def test_recordings_have_no_step_rewards(make_point: Make) -> None:
    assert [item.reward for item in view(make_point("a"), agent_version="imported:small@chat")] == [None, 1.0]


def test_logprobs_are_those_of_the_distribution_that_was_sampled(make_point: Make) -> None:
    point = make_point("a")
    spans = (WrittenSpan(0, 1, 3, "old"), WrittenSpan(1, 4, 5))
    row = TokenRow((5, 6, 7, 8, 9), spans, (-9.0, -9.0, -9.0), sampling_logprobs=(-0.5, -1.0, -2.0))
    tempered = view(point, rows=(row,), temperature=0.5)
    assert [item.logprob for item in tempered] == [-1.5, -2.0]
    assert [item.model_version for item in tempered] == ["old", "feed"]
    unknown = view(point, temperature=0.5)  # only those at temperature 1 are recorded
    assert [(item.logprob, item.written_tokens) for item in unknown] == [(None, 2), (None, 1)]
    assert [item.logprob for item in view(point, sampling={"top_p": 0.9})] == [None, None]
    rendered = view(point, origin="rendered")
    assert [(item.logprob, item.written_tokens) for item in rendered] == [(None, 0), (None, 0)]
    two = (TokenRow((1, 2), (WrittenSpan(0, 1, 2),), (-0.25,)), TokenRow((1, 3), (WrittenSpan(0, 1, 2),), (-0.5,)))
    assert view(point, rows=two)[0].logprob == -0.75


def decision(
    name: str, task_id: str, propensity: float, *, chosen: str = "nano@1", episode: str | None = None
) -> Decision:
    options = (Alternative(chosen, propensity, None), Alternative("other@1", 1.0 - propensity, None))
    return Decision(name, task_id, "mail", "default", "p", "s", options, "nano", chosen, propensity, "r", episode)


def test_the_propensity_is_that_of_the_decision_for_the_version(pool: Pool, make_point: Make) -> None:
    a, b = make_point("a"), make_point("b", task="task-a", agent="other@1")
    pool.append(a[0], decision("d", "task-a", 0.25), *a[1:], *b[1:])
    stored = transitions(pool, pool.experiences(tenant="default"), tenant="default")
    found = {(item.agent_version, item.assignment and item.assignment.propensity) for item in stored}
    assert found == {("nano@1", 0.25), ("other@1", None)}


def test_a_sealed_episode_has_the_propensity_of_its_calls(pool: Pool, make_point: Make) -> None:
    task, trajectory, evaluation = make_point("a", task=episode_task_id("default", "e"))
    chosen = decision("c1", "c1", 0.5, episode="e")
    call = Call("c1", "default", "e", "auto", "chat", "nano@1", "answered")
    pool.append(chosen, call, replace(task, environment=MODEL_CALL, episode="e"), trajectory, evaluation)
    stored = list(transitions(pool, pool.experiences(tenant="default"), tenant="default"))
    assert [item.assignment and item.assignment.propensity for item in stored] == [0.5, 0.5]
    assert [item.step_reward for item in stored] == [None, None]


def rows(
    pool: Pool, choice: Choice = ALL, *, tenant: str = "default", is_anonymised: bool = True
) -> list[dict[str, object]]:
    source = ChatSource(pool, tenant=tenant, choice=choice, is_anonymised=is_anonymised)
    file = io.BytesIO()
    TrainingExport(source, "transitions").write(file, ".jsonl")
    return [json.loads(line) for line in file.getvalue().splitlines()]


def test_exported_transitions_are_anonymised_and_keep_their_logprobs(pool: Pool, make_point: Make) -> None:
    task, trajectory, evaluation = make_point("a")
    turns = (replace(trajectory.turns[0], observation=Observation("mail of ada@corp.de")), trajectory.turns[1])
    pool.append(task, replace(trajectory, turns=turns), evaluation)
    exported = rows(pool)
    assert [row["state"] for row in exported] == ["mail of <EMAIL>", "moved"]
    assert [row["logprob"] for row in exported] == [-0.75, -1.5]
    assert [row["next_state"] for row in exported] == ["moved", ""]
    assert [row["arguments"] for row in exported] == ['{"id": 3, "to": "work"}', '{"text": "done"}']
    assert [row["tool"] for row in exported] == ["mail.move", "user.answer"]
    assert rows(pool, is_anonymised=False)[0]["state"] == "mail of ada@corp.de"


def test_the_export_has_the_choice_of_one_tenant_and_no_heldout_tasks(pool: Pool, make_point: Make) -> None:
    kept, other, held = make_point("a"), make_point("b", tenant="acme"), make_point("c")
    pool.append(*kept, *other, replace(held[0], split="heldout"), *held[1:])
    assert {row["trajectory_id"] for row in rows(pool)} == {"trajectory-a"}
    assert {row["trajectory_id"] for row in rows(pool, tenant="acme")} == {"trajectory-b"}
    assert rows(pool, Choice(Selection(verdicts=("failure",)))) == []
    frozen = take_snapshot(pool, tenants=("default",))
    assert len(rows(pool, Choice(snapshot=frozen.id))) == 2
    with pytest.raises(ConfigError, match="held-out tasks are never trained on"):
        TrainingExport(ChatSource(pool, tenant="default"), "transitions", split="heldout")


def test_a_trajectory_without_turns_is_counted(pool: Pool, make_point: Make) -> None:
    task, trajectory, evaluation = make_point("a")
    pool.append(task, replace(trajectory, turns=(), rows=()), evaluation)
    source = ChatSource(pool, tenant="default")
    TrainingExport(source, "transitions").write(io.BytesIO(), ".jsonl")
    assert source.omitted["no_turns"] == 1


def test_parquet_has_the_same_rows(pool: Pool, make_point: Make, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    pool.append(*make_point("a"))
    with (tmp_path / "t.parquet").open("wb") as file:
        TrainingExport(ChatSource(pool, tenant="default"), "transitions").write(file, ".parquet")
    assert parquet.read_table(tmp_path / "t.parquet").to_pylist() == rows(pool)

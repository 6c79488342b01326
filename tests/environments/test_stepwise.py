"""Episodes driven step by step."""

from itertools import islice
from random import Random

import pytest

from benchmarks.errands import ENVIRONMENT, compose
from upturn.environments import EnvironmentKit, hint_of, one_step, resolve_kit
from upturn.environments.stepwise import (
    TASK_OVER,
    StepwiseEpisode,
    TaskSelection,
    info_fields,
    read_action,
    record_fields,
)
from upturn.errors import UnknownNameError, WorldError
from upturn.models import write_call
from upturn.records import Action, Task, Trajectory, from_json, to_json


def _twice(rng: Random) -> tuple[str, dict[str, object]]:
    number = rng.randint(1, 10_000)
    return f"twice {number}?", {"answer": str(2 * number)}


def twice(*, breaks: bool = False) -> EnvironmentKit:
    """Asks for twice a number; with ``breaks`` its verifier raises."""

    def check(action: Action, expected: object) -> bool:
        if breaks:
            raise ValueError("no judge today")
        assert isinstance(expected, dict)
        return bool(action.parameters.get("text") == expected["answer"])

    return one_step("twice", _twice, check)


def first(kit: EnvironmentKit, choice: TaskSelection | None = None) -> Task:
    return next((choice or TaskSelection()).stream(kit, 0))


def start_episode(kit: EnvironmentKit, task: Task | None = None, *, max_turns: int = 16) -> StepwiseEpisode:
    episode = StepwiseEpisode(kit, task or first(kit), max_turns=max_turns)
    episode.start()
    return episode


def correct_answer(task: Task) -> str:
    return str(2 * int(task.instruction.removeprefix("twice ").removesuffix("?")))


def test_a_correct_answer_is_verified_once_and_later_actions_have_no_effect() -> None:
    kit = twice()
    task = first(kit)
    episode = start_episode(kit, task)
    assert (episode.observation.text, episode.outcome, episode.evaluation) == (task.instruction, None, None)
    answer = episode.act(f"user.answer text={correct_answer(task)}")
    assert answer.evaluation is not None
    assert (answer.reward, answer.is_terminated, answer.is_truncated) == (1.0, True, False)
    assert answer.evaluation == episode.evaluation == kit.verifier.verify(task, episode.trajectory())
    before = episode.trajectory()
    later = episode.act("user.answer text=0")
    assert (later.observation, later.reward, later.is_terminated, later.evaluation) == (TASK_OVER, 0.0, True, None)
    assert later.info.cost_components == {}
    assert episode.trajectory() == before
    assert episode.evaluation is answer.evaluation


def test_the_last_allowed_action_truncates_the_episode() -> None:
    kit = twice()
    episode = start_episode(kit, max_turns=2)
    assert episode.act("what?")[1:4] == (0.0, False, False)
    answer = episode.act("what?")
    assert (answer.observation.code, answer.reward) == ("malformed", 0.0)
    assert (answer.is_terminated, answer.is_truncated, episode.outcome) == (False, True, "step_limit")
    assert answer.evaluation is not None
    assert answer.evaluation.costs == {"error": 2.0}
    assert episode.act("more")[2:4] == (False, True)


def test_a_failing_verifier_leaves_the_reward_missing() -> None:
    kit = twice(breaks=True)
    answer = start_episode(kit).act("user.answer text=1")
    assert answer.evaluation is not None
    assert (answer.reward, answer.evaluation.verdict) == (None, "missing")
    assert "no judge today" in answer.evaluation.gates[0].detail


def test_a_failing_environment_ends_the_episode_without_evaluation(monkeypatch: pytest.MonkeyPatch) -> None:
    episode = start_episode(twice())
    monkeypatch.setattr(episode.environment, "step", lambda _: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        episode.act("user.answer text=1")
    trajectory = episode.trajectory()
    assert (trajectory.outcome, trajectory.error, trajectory.final_state) == (
        "environment_error",
        "ZeroDivisionError: division by zero",
        {},
    )
    assert [turn.text for turn in trajectory.turns] == ["user.answer text=1"]
    assert episode.act("user.answer text=1")[:4] == (TASK_OVER, 0.0, False, True)
    assert episode.evaluation is None


@pytest.mark.parametrize(
    "sent",
    [
        "",
        "\ud800",
        "mail",
        "user.answer text=" + "x" * 2**20,
        "user.answer text=\ud800",
        '{"name": "user.answer", "arguments": {"text": NaN}}',
        Action("", ""),
        Action("user", "answer", {"text": float("nan")}),
        Action("user", "answer", {"text": "\ud800"}),
        Action("user", "answer", {"text": object()}),  # type: ignore[dict-item]
        Action(3, None),  # type: ignore[arg-type]
    ],
)
def test_unrecordable_actions_get_an_error_observation(sent: Action | str) -> None:
    kit = twice()
    episode = start_episode(kit)
    assert episode.act(sent).observation.code == "malformed"
    stored = episode.trajectory()
    assert from_json(Trajectory, to_json(stored)) == stored
    assert stored.turns[0].action in (None, Action("", ""))


def test_a_json_call_may_follow_a_thought() -> None:
    call = Action("mail", "move", {"id": "m1", "folder": "archive"})
    assert read_action("  mail.move id=m1; folder=archive\n") == call
    reply = 'It is done there.\n{"name": "mail.move", "arguments": {"id": "m1", "folder": "archive"}}'
    action = read_action(reply)
    assert action is not None
    assert (action.parameters, action.thought) == (call.parameters, "It is done there.")
    assert read_action("I move mail.move id=m1") is None


PARTS = '{"target_app": "mail", "operation": "move", "parameters": {"id": "m1"}, "reasoning": "It is old."}'


def test_an_action_may_name_its_parts() -> None:
    assert read_action(PARTS) == Action("mail", "move", {"id": "m1"}, "It is old.")
    assert read_action(f"So be it.\n{PARTS}\n") == Action("mail", "move", {"id": "m1"}, "So be it.\nIt is old.")
    turned = '{"reasoning": "done", "operation": "finish", "target_app": "user"}'
    assert read_action(turned) == Action("user", "finish", {}, "done")


@pytest.mark.parametrize(
    "spoiled",
    [
        PARTS[:-1],
        f"{PARTS}{PARTS}",
        f"{PARTS} and then some",
        PARTS.replace('"operation"', '"op"'),
        PARTS.replace('"mail"', "7"),
        PARTS.replace('"mail"', '"mail.inbox"'),
        PARTS.replace('"move"', "null"),
        PARTS.replace('"move"', '"move it"'),
        PARTS.replace('{"id": "m1"}', '["m1"]'),
        PARTS.replace('"It is old."', "3"),
        PARTS.replace('"It is old."', '"\\ud800"'),
        PARTS.replace("reasoning", "thought"),
        f'{PARTS[:-1]}, "because": 1}}',
        f'{PARTS[:-1]}, "name": "mail.move"}}',
        f'{PARTS[:-1]}, "arguments": {{}}}}',
    ],
)
def test_invalid_parts_parse_as_none(spoiled: str) -> None:
    assert read_action(spoiled) is None


def test_only_equal_episodes_have_equal_ids() -> None:
    kit = twice()
    trajectories = []
    for text in ("1", "1", "2"):
        episode = start_episode(kit)
        episode.act(f"user.answer text={text}")
        trajectories.append(episode.trajectory())
    assert trajectories[0] == trajectories[1]
    assert trajectories[0].id != trajectories[2].id
    assert (trajectories[0].origin, trajectories[0].outcome, trajectories[0].agent_version) == (
        "rendered",
        "finished",
        "outside@1",
    )


def test_faults_are_recorded_action_by_action() -> None:
    kit = resolve_kit("office")
    task = first(kit, TaskSelection("mail_draft_unanswered"))
    episode = start_episode(kit, task)
    answers = [episode.act(call) for call in str(hint_of(kit, task)).splitlines()]
    assert episode.faults == [answer.info.faults for answer in answers]
    assert len([fault for faults in episode.faults for fault in faults]) == 1


def test_the_oracle_of_errands_scores_1_step_by_step() -> None:
    kit = resolve_kit(ENVIRONMENT)
    for task in islice(TaskSelection(level=3).stream(kit, 5), 3):
        episode = start_episode(kit, task)
        *before, last = [episode.act(write_call(action)) for action in compose(task).draft.oracle]
        assert [(answer.reward, answer.evaluation) for answer in before] == [(0.0, None)] * len(before)
        assert (last.reward, last.is_terminated) == (1.0, True)
        assert episode.turns[-1].potential is not None
        assert "potential" not in info_fields(last.info)


def test_tasks_match_family_level_and_split() -> None:
    kit = resolve_kit(ENVIRONMENT)
    tasks = list(islice(TaskSelection(level=2, split="heldout").stream(kit, 0), 8))
    assert {(task.level, task.split) for task in tasks} == {(2, "heldout")}
    assert first(kit, TaskSelection("mail_file")).family == "mail_file"
    assert record_fields(tasks[0])["family"] == tasks[0].family


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        (TaskSelection("fax"), "no family 'fax'; it has: mail_file"),
        (TaskSelection(level=99), "errands has no level 99; it has: 1, 2, 3"),
        (TaskSelection("mail_file", 3), "mail_file has no level 3; it has: 1"),
        (TaskSelection(split="test"), "unknown split 'test'; known: train, heldout"),  # type: ignore[arg-type]
    ],
)
def test_unknown_tasks_are_refused_at_once(choice: TaskSelection, message: str) -> None:
    with pytest.raises(UnknownNameError, match=message):
        choice.stream(resolve_kit(ENVIRONMENT), 0)


def test_an_episode_needs_room_for_an_action() -> None:
    kit = twice()
    with pytest.raises(WorldError, match="max_turns must be positive, got 0"):
        StepwiseEpisode(kit, first(kit), max_turns=0)

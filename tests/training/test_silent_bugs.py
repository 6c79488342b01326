"""Silent bugs of other projects in training on recorded rollouts, each reproduced in small and absent here.

Those of recording are in tests/agents/test_recording_bugs.py, those of shared prefixes in
test_attention.py and test_forward.py.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from transformers import PreTrainedModel

from upturn.agents import trajectory_id
from upturn.config import OptimiserSettings
from upturn.errors import TrainingError
from upturn.records import Observation, Task, TokenRow, Trajectory, Turn, WrittenSpan
from upturn.training import ScoredGroup, ScoredTrajectory, policy_rows
from upturn.training.algorithms.grpo import GrpoSettings, run_grpo
from upturn.training.algorithms.policy_gradient import PolicyGradient
from upturn.training.optimisation.batch import written_tokens
from upturn.training.optimisation.mismatch import WrittenLogprobs, mismatch
from upturn.training.optimisation.trainer import Trainer
from upturn.training.policy_settings import MismatchSettings
from upturn.training.runs import RunOptions, read_curve
from upturn.training.runs.run_folder import CURVE_FILE

Model = Callable[..., PreTrainedModel]
Make = Callable[..., Trajectory]
_TURNS = (Turn(Observation(""), "", None),) * 3
ONE_STEP = GrpoSettings(iterations=1, minibatches=1, evaluate_every=None, keep="final")


def _rollout(name: str, *, breaks: bool) -> Trajectory:
    """Three turns of two written tokens; with a break, the second prompt is no extension of the first turn."""
    tokens = (1, 5, 6, 2, 9, 7, 2, 8, 4)
    spans = [WrittenSpan(turn, 3 * turn + 1, 3 * turn + 3) for turn in range(3)]
    rows: tuple[TokenRow, ...] = (TokenRow(tokens, tuple(spans), (-1.0,) * 6),)
    if breaks:
        later = (3, *tokens[3:])  # the history was rewritten
        rows = (
            TokenRow(tokens[:3], (spans[0],), (-1.0,) * 2),
            TokenRow(later, (WrittenSpan(1, 2, 4), WrittenSpan(2, 5, 7)), (-1.0,) * 4, "history_changed"),
        )
    return Trajectory(
        name,
        "task",
        "a@1",
        turns=_TURNS,
        final_observation=_TURNS[0].observation,
        outcome="finished",
        origin="sampled",
        rows=rows,
        temperature=1.0,
    )


def _group(*members: tuple[Trajectory, float]) -> ScoredGroup:
    task = Task("task", "", "", "")
    return ScoredGroup(
        task, tuple(ScoredTrajectory(trajectory, (0.0, 0.0, reward)) for trajectory, reward in members)
    )


def test_a_broken_prefix_removes_no_gradient() -> None:
    """rLLM issue 352: where a prompt did not extend the tokens before it, the whole response's mask became 0."""
    results = []
    for breaks in (False, True):
        group = _group((_rollout("a", breaks=breaks), 1.0), (_rollout("b", breaks=False), 0.0))
        unit = PolicyGradient(lambda _, group=group: [group], ONE_STEP, seed=0).unit(0)
        ((stream,),) = unit.minibatches
        rows = [row for row in stream.rows if row.trajectory_id == "a"]
        results.append(
            (
                sorted(int(token) for row in rows for token in row.token_ids[row.positions]),
                [float(weight) for row in rows for weight in row.weights],
                stream.denominator,
            )
        )
        assert unit.metrics["forks"] == float(breaks)
    assert results[0] == results[1] == ([4, 5, 6, 7, 8, 9], [0.5] * 6, 12.0)


def test_a_mask_longer_than_the_ids_is_refused_by_name(make_trajectory: Make) -> None:
    """TRL issue 5144: the mask kept the length of a text that had become fewer tokens."""
    shorter = make_trajectory((1, 5, 2, 7), ((0, 2, 6),), name="t7", logprobs=(-1.0,) * 4)
    with pytest.raises(TrainingError, match=r"'t7' has written spans \[\(2, 6\)\] in a row of 4 tokens"):
        policy_rows(shorter, (1.0,))
    longer = make_trajectory((1, 5, 2, 7), ((0, 2, 4),), name="t8", logprobs=(-1.0,) * 4)
    with pytest.raises(TrainingError, match=r"'t8' has 4 sampler log-probs for 2 written tokens"):
        policy_rows(longer, (1.0,))


def _spoiled(groups: Sequence[ScoredGroup]) -> list[ScoredGroup]:
    """Every rollout's written token as another one, with the log-prob of the one that was sampled."""
    return [
        replace(
            group, members=tuple(replace(member, trajectory=_other(member.trajectory)) for member in group.members)
        )
        for group in groups
    ]


def _other(trajectory: Trajectory) -> Trajectory:
    (row,) = trajectory.rows
    ids = (*row.token_ids[:-1], (row.token_ids[-1] + 7) % 20)
    return replace(trajectory, rows=(replace(row, token_ids=ids),))


def test_unsampled_ids_show_in_the_first_step_and_can_be_masked(
    tiny_model: Model, copy_task: Callable[..., Any], tmp_path: Path
) -> None:
    """agent-lightning issue 326: wrong ids with the right log-probs trained the model to pieces in a few steps.

    The trainer's log-probs of the recorded ids reveal ids that the recorded log-probs do not belong to.
    """
    task = copy_task(tiny_model(), group_size=8)
    gaps = []
    for name, collect in (("right", task.collect), ("wrong", lambda index: _spoiled(task.collect(index)))):
        run_grpo(tiny_model(), collect, ONE_STEP, RunOptions(0, tmp_path / name))
        gaps.append(read_curve(tmp_path / name / CURVE_FILE)[0].metrics["max_logprob_gap"])
    recorded_gap, wrong_gap = gaps
    assert recorded_gap is not None and wrong_gap is not None
    assert recorded_gap < 1e-5
    assert wrong_gap > 0.1
    rows = [
        row
        for group in _spoiled(task.collect(0))
        for member in group.members
        for row in policy_rows(member.trajectory, (1.0,))
    ]
    tokens = written_tokens(rows)
    ours = Trainer(tiny_model(), OptimiserSettings()).score(rows)
    trainer = [float(value) for row in ours for value in row]
    masked = MismatchSettings(mask="token", mask_low=0.999, mask_high=1.001)
    result = mismatch(WrittenLogprobs(np.array(trainer), tokens.old_logprobs, tokens.sequences), masked)
    assert result.metrics["mismatch_masked"] > 0.9
    is_off = abs(np.array(trainer) - tokens.old_logprobs) > 0.002
    assert not result.corrections[is_off].any()


def test_duplicated_prompts_are_refused(tiny_model: Model, copy_task: Callable[..., Any]) -> None:
    """AgenticArXiv-RL issue 33: trainer and rollout function both expanded the prompts, so N·G·G rollouts were made
    where N·G were meant. Here duplicated rollouts have the same ids, which are refused."""
    task, group = Task("task", "", "", ""), 3

    def rollouts(key: str) -> tuple[ScoredTrajectory, ...]:
        return tuple(
            ScoredTrajectory(
                replace(_rollout("", breaks=False), id=trajectory_id(key, "task", "a@1", number)),
                (0.0, 0.0, float(number == 0)),
            )
            for number in range(group)
        )

    once = PolicyGradient(lambda _: [ScoredGroup(task, rollouts("run/0"))], ONE_STEP, seed=0).unit(0)
    assert (once.metrics["groups"], once.metrics["trajectories"]) == (1.0, 3.0)
    expanded = [ScoredGroup(task, rollouts("run/0")) for _ in range(group)]
    with pytest.raises(TrainingError, match="two trajectories of one iteration have the id"):
        PolicyGradient(lambda _: expanded, ONE_STEP, seed=0).unit(0)


def test_the_collected_rollouts_are_trained_on(
    tiny_model: Model, copy_task: Callable[..., Any], tmp_path: Path
) -> None:
    """TRL before 0.28 took a ``rollout_func`` and, without a vLLM server, silently sampled single turns."""
    task, iterations, trained = copy_task(tiny_model(), group_size=4), list[int](), list[float]()

    def collect(iteration: int) -> list[ScoredGroup]:
        iterations.append(iteration)
        groups: list[ScoredGroup] = task.collect(iteration)
        trained.append(
            sum(len(row.logprobs) for group in groups for m in group.members for row in m.trajectory.rows)
        )
        return groups

    run_grpo(task.model, collect, replace(ONE_STEP, iterations=3), RunOptions(0, tmp_path))
    assert iterations == [0, 1, 2]
    assert [point.metrics["written_tokens"] for point in read_curve(tmp_path / CURVE_FILE)] == trained == [16.0] * 3

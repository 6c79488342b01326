"""Hinted rollouts of tasks that a version in training failed: the training data of STaR and self-repair.

They are used for training only: a hinted rollout is no evidence of what its agent can do, and must not be trained
on with its hint.
"""

from collections.abc import Mapping, Sequence

from upturn.agents import Hint
from upturn.environments import HintedKit, add_hint, hint_of, verify_all
from upturn.errors import TrainingError
from upturn.loop.agent_runtime import Purpose
from upturn.loop.rollouts.policy_worker import PolicyWorker, RolloutSpec, score_trajectory
from upturn.records import Task, Trajectory
from upturn.training import HintKind, ScoredGroup, ScoredTrajectory
from upturn.training.data import HintedGroup

ANSWER = "hint: {}"
"""Introduces an answer; trajectories that write this word are not trained on."""
TROUBLE = "hint: this went wrong before: {}"
SECOND_SEED_STEP = 5_000_000
"""Separates the seeds of a round's first rollouts from those of its retries; refill rounds are further away."""


class HintedRetries:
    """Samples failed tasks again, with as many trajectories as the first time and a hint for each task."""

    def __init__(self, worker: PolicyWorker, rollouts: RolloutSpec, kind: HintKind) -> None:
        """Raises ConfigError for a program, in whose prompts the hint's place is not known."""
        worker.refuse_program("hints, which are taken out of the first prompt before training")
        self._worker = worker
        self._rollouts = rollouts
        self._kind: HintKind = kind

    def __call__(self, iteration: int, failed: Sequence[ScoredGroup], /) -> list[HintedGroup]:
        """The groups of all tasks with a hint. Raises TrainingError where no failed task has one."""
        tasks = {group.task.id: group.task for group in failed}
        firsts: dict[str, list[ScoredTrajectory]] = {task_id: [] for task_id in tasks}
        for group in failed:
            firsts[group.task.id] += [member for member in group.members if member.is_scorable]
        texts = {task.id: self._hint_texts(task, firsts[task.id]) for task in tasks.values()}
        helped = [task for task in tasks.values() if texts[task.id]]
        if failed and not helped:
            raise TrainingError(
                f"the environment {self._worker.runtime.kit.name!r} gives no hint for any of {len(tasks)} failed "
                "tasks; give its kit a method hint(task), or use self-repair, which needs none"
            )
        retries = [
            self._retry(helped, {task.id: texts[task.id][number] for task in helped}, iteration, number)
            for number in range(self._rollouts.group_size)
        ]
        return [
            HintedGroup(ScoredGroup(task, members), self._hints(firsts[task.id][0].trajectory, texts[task.id]))
            for task, members in zip(helped, zip(*retries, strict=True), strict=True)
        ]

    def _hint_texts(self, task: Task, firsts: Sequence[ScoredTrajectory]) -> list[str]:
        """The hint of each retry; empty where the kit has none for the task."""
        size = self._rollouts.group_size
        if self._kind == "rationalisation":
            answer = hint_of(self._worker.runtime.kit, task)
            return [] if answer is None else [ANSWER.format(answer)] * size
        return [TROUBLE.format(describe_trouble(firsts[number % len(firsts)].trajectory)) for number in range(size)]

    def _retry(
        self, tasks: Sequence[Task], hints: Mapping[str, str], iteration: int, number: int
    ) -> list[ScoredTrajectory]:
        """Trajectory ``number`` of each task, evaluated like a first one."""
        worker, rollouts = self._worker, self._rollouts
        runtime = worker.runtime.sibling(HintedKit(worker.runtime.kit, hints))
        runtime.adopt(worker.version, worker.engine, worker.renderer)
        seed = rollouts.seed * 100_003 + iteration + SECOND_SEED_STEP
        purpose = Purpose(f"{rollouts.run}/{iteration}/second", seed, temperature=rollouts.temperature)
        trajectories = runtime.rollout([(worker.version, task, number) for task in tasks], purpose)
        evaluations = verify_all(worker.runtime.kit.verifier, list(zip(tasks, trajectories, strict=True)))
        return [
            score_trajectory(trajectory, rollouts.reward(trajectory, evaluation))
            for trajectory, evaluation in zip(trajectories, evaluations, strict=True)
        ]

    def _hints(self, first: Trajectory, texts: Sequence[str]) -> tuple[Hint, ...]:
        """``first``: a trajectory without a hint, whose first observation opens the task."""
        renderer, prompt = self._worker.renderer, self._worker.version.prompt
        plain = first.turns[0].observation
        return tuple(
            Hint(text, plain, renderer.open(add_hint(plain, text), prompt), renderer.open(plain, prompt))
            for text in texts
        )


def describe_trouble(trajectory: Trajectory) -> str:
    """The last refused action with its answer; without a refusal the last action, as not what was asked for.

    Uses only what the agent observed: a verifier's findings would reveal the answer.
    """
    answers = [turn.observation for turn in trajectory.turns[1:]] + [trajectory.final_observation]
    for turn, answer in zip(reversed(trajectory.turns), reversed(answers), strict=True):
        if answer.is_error:
            return f"{turn.text} -> error {answer.code}: {answer.text}"
    return f"{trajectory.turns[-1].text} -> not what was asked for"

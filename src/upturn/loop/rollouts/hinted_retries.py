"""Second attempts, with help, at tasks that a version in training failed: what STaR and self-repair learn from.

They go nowhere but into training: an attempt that was told something is no evidence of what its agent can do, and
with its hint it must not be learned from.
"""

from collections.abc import Mapping, Sequence

from upturn.agents import Hint
from upturn.environments import HintedKit, add_hint, hint_of, verify
from upturn.errors import TrainingError
from upturn.loop.agent_runtime import AgentRuntime, Purpose
from upturn.loop.rollouts.policy_worker import PolicyWorker, RolloutPlan, scored
from upturn.records import Observation, Task, Trajectory
from upturn.training import ScoredGroup, ScoredTrajectory, SecondKind
from upturn.training.data import HintedGroup

ANSWER = "hint: {}"
"""How an answer is introduced; attempts that write the word are not learned from."""
TROUBLE = "hint: this went wrong before: {}"
SECOND_SEED_STEP = 5_000_000
"""Between the seeds of a round's first attempts and those of its second ones; rounds of refilling are further
off."""


class SecondAttempts:
    """Attempts failed tasks again, as often as the first time, each task with help of its own."""

    def __init__(self, worker: PolicyWorker, practice: RolloutPlan, kind: SecondKind) -> None:
        self._worker = worker
        self._practice = practice
        self._kind: SecondKind = kind

    def __call__(self, iteration: int, failed: Sequence[ScoredGroup], /) -> list[HintedGroup]:
        """The groups of the tasks that there is help for. Raises TrainingError where there is none for any."""
        tasks = {group.task.id: group.task for group in failed}
        firsts = {name: _scorable(failed, name) for name in tasks}
        told = [self._hints(tasks, firsts, number) for number in range(self._practice.attempts)]
        helped = [task for name, task in tasks.items() if name in told[0]]
        if failed and not helped:
            raise TrainingError(
                f"the environment {self._worker.runtime.kit.name!r} gives no hint for any of {len(tasks)} failed "
                "tasks; give its kit a method hint(task), or let second attempts be self-repair, which needs none"
            )
        made = [self._attempts(helped, hints, iteration, number) for number, hints in enumerate(told)]
        return [
            self._group(task, [each[place] for each in made], firsts[task.id][0], [each[task.id] for each in told])
            for place, task in enumerate(helped)
        ]

    def _hints(
        self, tasks: Mapping[str, Task], firsts: Mapping[str, Sequence[ScoredTrajectory]], number: int
    ) -> dict[str, str]:
        """What attempt ``number`` at each task is told, by task; tasks that there is no help for are missing."""
        if self._kind == "rationalisation":
            found = {name: hint_of(self._worker.runtime.kit, task) for name, task in tasks.items()}
            return {name: ANSWER.format(hint) for name, hint in found.items() if hint is not None}
        return {
            name: TROUBLE.format(trouble(members[number % len(members)].trajectory))
            for name, members in firsts.items()
        }

    def _attempts(
        self, tasks: Sequence[Task], hints: Mapping[str, str], iteration: int, number: int
    ) -> list[ScoredTrajectory]:
        """One at each task, judged as first attempts are."""
        worker, practice = self._worker, self._practice
        runtime = AgentRuntime(HintedKit(worker.runtime.kit, hints), worker.runtime.limits)
        runtime.adopt(worker.version, worker.engine, worker.renderer)
        seed = practice.seed * 100_003 + iteration + SECOND_SEED_STEP
        purpose = Purpose(f"{practice.run}/{iteration}/second", seed, temperature=1.0)
        made = runtime.attempt([(worker.version, task, number) for task in tasks], purpose)
        verifier = worker.runtime.kit.verifier
        return [
            scored(each, practice.earned(each, verify(verifier, task, each)))
            for task, each in zip(tasks, made, strict=True)
        ]

    def _group(
        self, task: Task, members: Sequence[ScoredTrajectory], first: ScoredTrajectory, texts: Sequence[str]
    ) -> HintedGroup:
        """``first``: an attempt without help, which saw how the task begins."""
        plain = first.trajectory.turns[0].observation
        return HintedGroup(ScoredGroup(task, tuple(members)), tuple(self._hint(plain, text) for text in texts))

    def _hint(self, plain: Observation, text: str) -> Hint:
        renderer, prompt = self._worker.renderer, self._worker.version.prompt
        return Hint(text, plain, renderer.open(add_hint(plain, text), prompt), renderer.open(plain, prompt))


def trouble(trajectory: Trajectory) -> str:
    """The last action that was refused, with the answer to it; where none was, the last one, as not what was asked.

    Only what the attempt itself saw: a verifier's findings would tell the answer.
    """
    answers = [turn.observation for turn in trajectory.turns[1:]] + [trajectory.final_observation]
    refused = [pair for pair in zip(trajectory.turns, answers, strict=True) if pair[1].is_error]
    if refused:
        turn, answer = refused[-1]
        return f"{turn.text} -> error {answer.code}: {answer.text}"
    return f"{trajectory.turns[-1].text} -> not what was asked for"


def _scorable(groups: Sequence[ScoredGroup], name: str) -> list[ScoredTrajectory]:
    """The attempts at a task that could be judged, in order; an attempt that could has turns."""
    return [member for group in groups if group.task.id == name for member in group.members if member.is_scorable]

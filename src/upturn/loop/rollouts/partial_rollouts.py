"""Partial rollouts: an iteration ends when enough tasks are finished, and the other trajectories go on in the next.

More tasks are in progress than an iteration trains on. Once enough of them have all their trajectories, the others
are paused between two tokens; the next iteration continues them with the weights that it trains, whose keys and
values are computed anew for the tokens so far. So every token is sampled, and has the log-prob, of one version of
the weights over its exact prefix, and every span of tokens names that version. Tokens of versions that are too old
become context; younger ones are corrected by their recorded log-probs, as within an iteration.

With an engine in this process the iterations depend on seed and weights only: no clock decides where they end. The
paused trajectories are part of the checkpoint, so that a resumed run ends like one that was not interrupted.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from upturn.agents import PausedRollout, RolloutRequest, trajectory_id
from upturn.environments import verify_all
from upturn.loop.agent_runtime import Purpose
from upturn.loop.rollouts.policy_worker import PolicyWorker, RolloutSpec, TaskSampler
from upturn.records import Evaluation, Task, Trajectory, TrajectorySink, fields_json, from_fields, record
from upturn.training import PartialSettings, ScoredGroup, State, written_by, written_count

if TYPE_CHECKING:
    from torch import Tensor


@record
class _Member:
    """One trajectory of a group: finished, paused, or (neither) not started."""

    finished: Trajectory | None = None
    evaluation: Evaluation | None = None
    """Of a finished one."""
    paused: PausedRollout | None = None


@record
class _OpenGroup:
    task: Task
    started: int
    """Iteration."""
    members: tuple[_Member, ...]

    @property
    def is_finished(self) -> bool:
        return all(member.finished is not None for member in self.members)


@record
class _Progress:
    """The state after an iteration."""

    groups: tuple[_OpenGroup, ...] = ()
    """In progress."""
    versions: tuple[str, ...] = ()
    """Hashes of the weights that sampled the iterations so far, repeated where they did not change."""


class PartialRollouts:
    """A ``StatefulCollect`` whose trajectories may take several iterations. Single use."""

    def __init__(
        self,
        worker: PolicyWorker,
        sampler: TaskSampler,
        rollouts: RolloutSpec,
        sink: TrajectorySink,
        *,
        tasks: int,
        settings: PartialSettings,
    ) -> None:
        """``tasks``: finished ones that end an iteration. Trajectories go to the sink in the iteration that
        finishes them. Raises ConfigError for a program, which cannot be paused."""
        worker.refuse_program("partial rollouts, which pause an attempt between two tokens")
        self._worker = worker
        self._sampler = sampler
        self._rollouts = rollouts
        self._sink = sink
        self._tasks = tasks
        self._settings = settings
        self._progress = _Progress()
        self._metrics: dict[str, float] = {}

    def __call__(self, iteration: int, /) -> Sequence[ScoredGroup]:
        """Returns the groups that the iteration finishes, at least as many as it waits for.

        Raises ModelError where the model broke every trajectory.
        """
        from upturn.models.engine import weights_hash

        versions = (*self._progress.versions, weights_hash(self._worker.model))
        groups = [*self._progress.groups, *self._new_groups(iteration)]
        groups = self._sample(groups, iteration)
        finished = [group for group in groups if group.is_finished]
        self._progress = _Progress(tuple(group for group in groups if not group.is_finished), versions)
        trained = [self._scored(group, set(versions[-1 - self._settings.max_age :])) for group in finished]
        self._metrics = self._measure(finished, trained, iteration)
        return trained

    def state(self) -> State:
        """Returns the trajectories in progress, and the versions so far."""
        import torch

        content = fields_json(self._progress).encode()
        return {"progress": torch.frombuffer(bytearray(content), dtype=torch.uint8)}

    def load_state(self, state: State) -> None:
        """Restores a state from ``state``."""
        stored: Tensor | float = state["progress"]
        assert not isinstance(stored, float)
        self._progress = from_fields(_Progress, bytes(stored.tolist()))

    def metrics(self) -> Mapping[str, float]:
        """Returns what is in progress after the last iteration, and the age of its tokens."""
        return self._metrics

    def identity(self) -> Mapping[str, object]:
        """Returns the settings."""
        return {"partial": {"extra_tasks": self._settings.extra_tasks, "max_age": self._settings.max_age}}

    def _new_groups(self, iteration: int) -> list[_OpenGroup]:
        """Groups for the iteration's tasks, and for as many further ones as there are too few in progress.

        A task that is still in progress is left out.
        """
        wanted = self._tasks + self._settings.extra_tasks - len(self._progress.groups)
        further = self._sampler.further_tasks(iteration, 1)
        order = np.random.default_rng([self._rollouts.seed, iteration]).permutation(len(further))
        tasks = {group.task.id: None for group in self._progress.groups}
        fresh: list[Task] = []
        for task in (*self._sampler.tasks(iteration), *(further[index] for index in order)):
            if task.id not in tasks and len(fresh) < wanted:
                tasks[task.id] = None
                fresh.append(task)
        members = (_Member(),) * self._rollouts.group_size
        return [_OpenGroup(task, iteration, members) for task in fresh]

    def _sample(self, groups: Sequence[_OpenGroup], iteration: int) -> list[_OpenGroup]:
        """The groups after the iteration's rollouts; what finished is evaluated and stored."""
        worker, rollouts = self._worker, self._rollouts
        version = worker.serve_as(worker.version)
        seed = rollouts.seed * 100_003 + iteration
        purpose = Purpose(f"{rollouts.run}/{iteration}", seed, rollouts.temperature, rollouts.sampling)
        requests: list[RolloutRequest] = []
        places: list[tuple[int, int]] = []
        for index, group in enumerate(groups):
            for number, member in enumerate(group.members):
                if member.finished is None:
                    requests.append(RolloutRequest(group.task, number, index, paused=member.paused))
                    places.append((index, number))
        group_of = {
            _id_of(request, purpose, version.id): index
            for request, (index, _) in zip(requests, places, strict=True)
        }
        missing = [sum(index == other for other, _ in places) for index in range(len(groups))]
        wanted = min(self._tasks, len(groups))

        def is_enough(trajectory: Trajectory) -> bool:
            missing[group_of[trajectory.id]] -= 1
            return missing.count(0) >= wanted

        results = worker.runtime.rollout_until(version, requests, purpose, is_enough=is_enough)
        members = [list(group.members) for group in groups]
        ended: list[tuple[int, int]] = []
        judged: list[tuple[Task, Trajectory]] = []
        for (index, number), result in zip(places, results, strict=True):
            if isinstance(result, PausedRollout):
                members[index][number] = _Member(paused=result)
            else:
                ended.append((index, number))
                judged.append((groups[index].task, result))
        evaluations = verify_all(worker.runtime.kit.verifier, judged)
        stored = [(*pair, evaluation) for pair, evaluation in zip(judged, evaluations, strict=True)]
        for (index, number), (_, trajectory, evaluation) in zip(ended, stored, strict=True):
            members[index][number] = _Member(trajectory, evaluation)
        worker.check_model([trajectory for _, trajectory, _ in stored])
        self._sink.append(rollouts.run, iteration, stored)
        return [replace(group, members=tuple(new)) for group, new in zip(groups, members, strict=True)]

    def _scored(self, group: _OpenGroup, versions: set[str]) -> ScoredGroup:
        """The group for training: only tokens of these versions are trained on."""
        scored = []
        for member in group.members:
            assert member.finished is not None and member.evaluation is not None
            whole = self._worker.scored(self._rollouts, member.finished, member.evaluation)
            scored.append(replace(whole, trajectory=written_by(member.finished, versions)))
        return ScoredGroup(group.task, tuple(scored))

    def _measure(
        self, finished: Sequence[_OpenGroup], trained: Sequence[ScoredGroup], iteration: int
    ) -> dict[str, float]:
        written = sum(
            written_count(member.finished)
            for group in finished
            for member in group.members
            if member.finished is not None
        )
        left = sum(written_count(member.trajectory) for group in trained for member in group.members)
        ages = [iteration - group.started for group in finished]
        return {
            "partial_open": float(len(self._progress.groups)),
            "partial_age": sum(ages) / len(ages) if ages else 0.0,
            "partial_masked": 1.0 - left / written if written else 0.0,
        }


def _id_of(request: RolloutRequest, purpose: Purpose, agent_version: str) -> str:
    """Id of the rollout's trajectory."""
    if request.paused is not None:
        return request.paused.id
    return trajectory_id(purpose.key, request.task.id, agent_version, request.number)

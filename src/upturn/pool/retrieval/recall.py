"""What may be found: successes of the same tenant at other tasks, that were known before.

Never found: another tenant's records; held-out tasks; the task itself; another task of its episode; where the
question is a task, one with an equal instruction; what was stored after the bound, trajectory or verdict. One
success stands for all with the same instruction: the one with the best score, then the fewest written tokens, then
the earliest. Instructions are equal if they differ in case and spaces only.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from sqlalchemy import func, select

from upturn.errors import UnknownNameError
from upturn.pool import schema
from upturn.pool.reader import PoolReader
from upturn.pool.retrieval.embedder import Embedder
from upturn.pool.retrieval.latent import LatentEmbedder
from upturn.pool.retrieval.search import nearest
from upturn.pool.retrieval.successes import last_point, read_goals, read_successes
from upturn.records import Recalled, Task

_GROWTH = 1 / 16
_NEVER = np.iinfo(np.int64).max
MakeEmbedder = Callable[[str, Sequence[str]], Embedder]
"""Returns the embedder of a tenant with these distinct instructions, the earliest first."""


def by_words(_tenant: str, instructions: Sequence[str]) -> Embedder:
    """Returns the default embedder, which needs no model."""
    return LatentEmbedder(instructions)


class Question(NamedTuple):
    """What similar successes are asked for."""

    text: str
    task_id: str | None = None
    """Never found; None = the text is not a task's."""
    episode: str | None = None
    """Its tasks are never found."""
    bound: int | None = None
    """Only what the pool had up to this sequence number; None = all of the index."""

    @property
    def allows_equal(self) -> bool:
        """Whether an equal instruction may be found: it is the answer that is to be found out for a task."""
        return self.task_id is None


class Similar(NamedTuple):
    """A success at a similar task."""

    trajectory_id: str
    task_id: str
    family: str
    instruction: str
    similarity: float
    score: float


class SuccessIndex:
    """The successes of one tenant as of one moment, by embeddings. Thread-safe: it never changes."""

    def __init__(
        self,
        pool: PoolReader,
        *,
        tenant: str,
        families: Sequence[str] = (),
        bound: int | None = None,
        embedder: MakeEmbedder = by_words,
    ) -> None:
        """Reads the latest ``MOST_SUCCESSES``; ``families`` () = of all.

        ``bound``: only what the pool had up to this sequence number; None = all that is stored now.
        """
        successes = read_successes(pool.engine, tenant=tenant, families=families, bound=bound)
        goals = read_goals(pool.engine, sorted({success.task for success in successes}), tenant=tenant)
        self._pool, self._tenant = pool, tenant
        self._bound = _NEVER - 1 if bound is None else bound
        self._successes = [success for success in successes if success.task in goals]
        self._goals = goals
        self._numbers: dict[str, int] = {}
        """Of each distinct instruction, in the order of arrival."""
        instructions: list[str] = []
        self._texts: list[int] = []
        """Of each success."""
        for item in self._successes:
            instruction = goals[item.task].instruction
            number = self._numbers.setdefault(_key(instruction), len(instructions))
            if number == len(instructions):
                instructions.append(instruction)
            self._texts.append(number)
        self._text_of = np.array(self._texts, np.intp)
        self._since = np.array([item.since for item in self._successes], np.int64)
        self._until = np.array([_NEVER if item.until is None else item.until for item in self._successes], np.int64)
        self.embedder = embedder(tenant, instructions)
        self._matrix = self.embedder.documents(instructions)
        self._of_task: dict[str, list[int]] = {}
        self._of_episode: dict[str, list[int]] = {}
        for place, item in enumerate(self._successes):
            goal = goals[item.task]
            self._of_task.setdefault(goal.task_id, []).append(place)
            if goal.episode is not None:
                self._of_episode.setdefault(goal.episode, []).append(place)

    def __len__(self) -> int:
        """The number of distinct instructions."""
        return len(self._numbers)

    def search(self, question: Question, k: int) -> list[Similar]:
        """Returns at most k successes, the most similar first, none with nothing in common.

        Raises ValueError for k below 1.
        """
        if k < 1:
            raise ValueError(f"k must be at least 1, got {k!r}")
        bound = min(self._bound, _NEVER if question.bound is None else question.bound)
        is_open = (self._since <= bound) & (self._until > bound)
        is_open[self._of_task.get(question.task_id or "", [])] = False
        is_open[self._of_episode.get(question.episode or "", [])] = False
        allowed = np.zeros(len(self._numbers), np.bool_)
        allowed[self._text_of[is_open]] = True
        if not question.allows_equal and (number := self._numbers.get(_key(question.text))) is not None:
            allowed[number] = False
        found = nearest(self._matrix, self.embedder.query(question.text), k, allowed)
        found = [(number, min(similarity, 1.0)) for number, similarity in found if similarity > 0]
        wanted = [number for number, _ in found]
        best: dict[int, int] = {}
        for place in np.flatnonzero(is_open & np.isin(self._text_of, wanted)).tolist():
            text = self._texts[place]
            if text not in best or self._rank(place) < self._rank(best[text]):
                best[text] = place
        ids = self._trajectory_ids([self._successes[best[number]].trajectory for number in wanted])
        return [
            self._similar(best[number], similarity, ids)
            for number, similarity in found
            if self._successes[best[number]].trajectory in ids  # otherwise it was erased meanwhile
        ]

    def _rank(self, place: int) -> tuple[float, int, int]:
        success = self._successes[place]
        return -success.score, success.written_tokens, success.since

    def _similar(self, place: int, similarity: float, ids: dict[int, str]) -> Similar:
        success = self._successes[place]
        goal = self._goals[success.task]
        trajectory_id = ids[success.trajectory]
        return Similar(trajectory_id, goal.task_id, goal.family, goal.instruction, similarity, success.score)

    def _trajectory_ids(self, sequences: Sequence[int]) -> dict[int, str]:
        table = schema.trajectories
        query = select(table.c.sequence, table.c.id).where(
            table.c.sequence.in_(sequences), table.c.tenant == self._tenant
        )
        with self._pool.engine.connect() as connection:
            return {row.sequence: row.id for row in connection.execute(query)}


def task_question(pool: PoolReader, task_id: str, *, tenant: str) -> Question:
    """Returns the question for a stored task: what was known before it was stored.

    Raises UnknownNameError for a task that the tenant does not have.
    """
    query = select(schema.tasks.c.sequence).where(schema.tasks.c.id == task_id, schema.tasks.c.tenant == tenant)
    with pool.engine.connect() as connection:
        sequence = connection.execute(query).scalar()
    if sequence is None:
        raise UnknownNameError(
            f"tenant {tenant!r} has no task {task_id!r}; `upturn pool show` and `upturn pool export` name its tasks"
        )
    (task,) = pool.tasks(tenant=tenant, ids=[task_id])
    return Question(task.instruction, task_id, task.episode, sequence - 1)


class PoolRecall:
    """A ``records.Recall`` that finds successes of each task's own tenant.

    With a bound, what is found never changes. Without one, the index of a tenant is read again once the pool has
    grown by a sixteenth. Not thread-safe.
    """

    def __init__(self, pool: PoolReader, *, bound: int | None = None, embedder: MakeEmbedder = by_words) -> None:
        """``bound``: only what the pool had up to this sequence number; None = all of the past."""
        self._pool, self._bound, self._embedder = pool, bound, embedder
        self._indices: dict[str, tuple[int, SuccessIndex]] = {}
        """By tenant, with the last sequence number of the pool when it was read."""

    def similar(self, task: Task, k: int) -> Sequence[Recalled]:
        """Returns at most k successes of the task's tenant at other tasks; see ``records.Recall``."""
        found = self._index(task.tenant).search(Question(task.instruction, task.id, task.episode), k)
        ids = [item.trajectory_id for item in found]
        points = self._pool.experiences_of(ids, tenant=task.tenant, has_tokens=False)
        return [
            Recalled(point.task, point.trajectory, item.similarity)
            for point, item in zip(points, found, strict=True)
        ]

    def _index(self, tenant: str) -> SuccessIndex:
        now = 0 if self._bound is not None else last_point(self._pool.engine)
        if tenant not in self._indices or now > self._indices[tenant][0] * (1 + _GROWTH):
            index = SuccessIndex(self._pool, tenant=tenant, bound=self._bound, embedder=self._embedder)
            self._indices[tenant] = now, index
        return self._indices[tenant][1]


def recall_before(pool: PoolReader, run_id: str, embedder: MakeEmbedder = by_words) -> PoolRecall:
    """Returns what the pool had when the run began, so that a run that resumes recalls the same."""
    table = schema.history
    query = select(func.min(table.c.sequence)).where(table.c.kind == schema.runs.name, table.c.record_id == run_id)
    with pool.engine.connect() as connection:
        bound = connection.execute(query).scalar() or 0
    return PoolRecall(pool, bound=bound, embedder=embedder)


def _key(instruction: str) -> str:
    return " ".join(instruction.casefold().split())

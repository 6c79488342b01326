"""The chats of the chosen trajectories, for the formats of training.

Held-out tasks are never trained on, so they are read only where a format asks for them. What cannot be expressed is
omitted and counted by cause.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple, TypeVar

from upturn.dialects import Conversation, Image, RequestError, Toolbox
from upturn.pool.calls import StoredCall, calls_of_episode
from upturn.pool.exports.chat import Chat, chat_of_turns, chats_of_calls, message_rows
from upturn.pool.exports.choice import EVERYTHING_CHOSEN, Choice
from upturn.pool.ingestion import LostWordsError, is_imported, transcript
from upturn.pool.privacy import Replacer, anonymise, mask
from upturn.pool.reader import Experience, PoolReader
from upturn.records import (
    MODEL_CALL,
    CallContent,
    Evaluation,
    Observation,
    Split,
    Task,
    Tool,
    Trajectory,
    fields_json,
    from_fields,
)

RecordT = TypeVar("RecordT")

ToolsOf = Callable[[str], Sequence[Tool]]
"""Returns the tools of an environment by its name; empty = it is unknown or describes none."""


class ChatPoint(NamedTuple):
    """A trajectory as chats: one, or one for each conversation of an episode."""

    task: Task
    trajectory: Trajectory
    evaluation: Evaluation | None
    """None = no evaluation is stored."""
    chats: tuple[Chat, ...]


class ChatSource:
    """Reads the chats of one tenant's chosen trajectories."""

    def __init__(
        self,
        pool: PoolReader,
        *,
        tenant: str,
        choice: Choice = EVERYTHING_CHOSEN,
        tools_of: ToolsOf = lambda _: (),
        is_anonymised: bool = True,
        replacer: Replacer = mask,
    ) -> None:
        """``replacer``: what stands for privacy findings."""
        self.pool, self.tenant = pool, tenant
        self.choice, self._tools_of, self._is_anonymised = choice, tools_of, is_anonymised
        self._replacer = replacer
        self._versions = {version.id: self.anonymous(version) for version in pool.agent_versions()}
        self.omitted: Counter[str] = Counter()
        """Number of trajectories, tasks or pairs that are not written, by cause."""

    def experiences(self, split: Split | None = "train", *, has_tokens: bool = False) -> Iterator[Experience]:
        """Yields the chosen data points with tasks of this split (None = of all)."""
        for experience in self.choice.experiences(self.pool, tenant=self.tenant, has_tokens=has_tokens):
            if split in (None, experience.task.split):
                yield experience
            else:
                self.omitted[experience.task.split] += 1

    def points(self, split: Split = "train") -> Iterator[ChatPoint]:
        """Yields the chosen data points of this split that have words."""
        for experience in self.experiences(split):
            if (point := self.point(experience)) is not None:
                yield point

    def point(self, experience: Experience) -> ChatPoint | None:
        """Returns the data point with its chats; None = it has none, which is counted."""
        point = self.read(experience)
        if point is None:
            return None
        chats = tuple(chat for chat in point.chats if chat.has_words)
        if not chats:
            self.omitted["no_words"] += 1
            return None
        return point._replace(chats=chats)

    def read(self, experience: Experience, *, has_end: bool = False) -> ChatPoint | None:
        """Returns the data point with its chats, with or without words; None = they cannot be written as text.

        ``has_end``: with what was observed after the last message of the model.
        """
        task, trajectory = self.anonymous(experience.task), self.anonymous(experience.trajectory)
        evaluation = None if experience.evaluation is None else self.anonymous(experience.evaluation)
        if not has_end:
            trajectory = replace(trajectory, final_observation=Observation(""))
        try:
            chats = self._recorded(experience.trajectory) or tuple(self._chats(task, trajectory))
        except LostWordsError:
            self.omitted["lost_words"] += 1
            return None
        if (problem := next(filter(None, map(_problem, chats)), None)) is not None:
            self.omitted[problem] += 1
            return None
        return ChatPoint(task, trajectory, evaluation, chats)

    def _recorded(self, trajectory: Trajectory) -> tuple[Chat, ...]:
        """Returns an imported conversation word for word; empty = the trajectory is none. Raises LostWordsError."""
        if not is_imported(trajectory):
            return ()
        recorded = transcript(trajectory)  # before it is anonymised: it knows where in the texts the messages are
        content = CallContent(
            trajectory.id,
            self.tenant,
            fields_json(Conversation(recorded.messages)),
            fields_json(Toolbox(recorded.tools)),
        )
        clean = self.anonymous(content)
        messages = from_fields(Conversation, clean.messages).messages
        return (Chat(messages, from_fields(Toolbox, clean.tools).tools),)

    def _chats(self, task: Task, trajectory: Trajectory) -> list[Chat]:
        if task.environment == MODEL_CALL and task.episode is not None:
            calls = calls_of_episode(self.pool.engine, task.episode, tenant=self.tenant)
            chats = chats_of_calls([self._anonymous_call(stored) for stored in calls])
            if chats:
                return chats
        if task.environment == MODEL_CALL:
            return [chat_of_turns(trajectory)]
        version = self._versions.get(trajectory.agent_version)
        prompt = version.prompt if version is not None else ""
        return [chat_of_turns(trajectory, prompt=prompt, tools=self._tools_of(task.environment))]

    def _anonymous_call(self, stored: StoredCall) -> StoredCall:
        content = None if stored.content is None else self.anonymous(stored.content)
        return StoredCall(stored.call, content)

    def anonymous(self, record: RecordT) -> RecordT:
        """Returns the record as it is exported."""
        return anonymise(record, self._replacer) if self._is_anonymised else record


def _problem(chat: Chat) -> str | None:
    """Returns why the chat cannot be written as text; None = it can."""
    if any(isinstance(part, Image) for message in chat.messages for part in message.parts):
        return "images"
    try:
        message_rows(chat.messages)
    except RequestError:
        return "not_expressible"
    return None

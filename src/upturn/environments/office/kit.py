"""The office as a kit."""

from collections.abc import Iterator, Mapping, Sequence

from upturn.environments.office.baseline import oracle
from upturn.environments.office.environment import OfficeEnvironment
from upturn.environments.office.tasks import FAMILIES, compose, task_stream
from upturn.environments.office.tools import office_tools
from upturn.environments.office.verifier import OfficeVerifier, may_differ
from upturn.environments.player import Player, following
from upturn.environments.proof import CANARY_LENGTH
from upturn.models import write_call
from upturn.records import Action, JsonValue, Split, Task


class OfficeKit:
    """Offices, their verifier and their endless tasks."""

    def __init__(self) -> None:
        self.name = "office"
        self.families: Mapping[str, int] = {family.name: family.level for family in FAMILIES.values()}
        self.verifier = OfficeVerifier()
        self.tools = office_tools()

    def environment(self, task: Task) -> OfficeEnvironment:  # noqa: ARG002  # every task has the same kind of office
        """A new office; ``reset`` furnishes it."""
        return OfficeEnvironment()

    def tasks(self, *, seed: int, split: Split, families: Sequence[str]) -> Iterator[Task]:
        """Endless tasks, each family once a round."""
        return task_stream(families, seed=seed, split=split)

    def hint(self, task: Task) -> str:
        """The oracle's calls, one a line."""
        return "\n".join(map(write_call, compose(task).draft.oracle))

    def oracle(self, task: Task) -> Player:  # noqa: ARG002  # one for all tasks
        """The shortest known solution."""
        return oracle

    def canaries(self, task: Task) -> tuple[str, ...]:
        """The oracle's calls as they are written, and the paths of what must differ. Answers are too short."""
        draft = compose(task).draft
        texts = dict.fromkeys((*map(write_call, draft.oracle), *draft.changes))
        return tuple(text for text in texts if len(text) >= CANARY_LENGTH and text not in task.instruction)

    def attacks(self, task: Task) -> Mapping[str, Player]:
        """Perfect work that is spoiled: by mail to an outsider, by a refusal in the end, by no end at all."""
        *work, end = compose(task).draft.oracle
        outside = Action("mail", "send", {"to": "eve@rival.example", "subject": "hello", "body": "see this"})
        return {
            "outsider": following((*work, outside, end)),
            "refusal": following((*work, Action("user", "refuse", {"text": "this cannot be done"}))),
            "no_end": following(work),
        }

    def may_differ(self, task: Task, path: Sequence[str], value: JsonValue) -> bool:
        """What the verifier does not look at, and having read a mail."""
        return may_differ(compose(task).draft, path, value)

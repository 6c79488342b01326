"""The kit of errands."""

from collections.abc import Iterator, Mapping, Sequence

from benchmarks.errands.baseline import oracle
from benchmarks.errands.environment import ErrandsEnvironment
from benchmarks.errands.tasks import FAMILIES, compose, task_stream
from benchmarks.errands.tools import errands_tools
from benchmarks.errands.verifier import ErrandsVerifier, may_differ
from upturn.environments import CANARY_LENGTH, ScriptedPolicy, fixed_policy
from upturn.models import write_call
from upturn.records import Action, JsonValue, Split, Task


class ErrandsKit:
    """Environments, verifier and an unlimited number of tasks."""

    def __init__(self) -> None:
        self.name = "errands"
        self.families: Mapping[str, int] = {family.name: family.level for family in FAMILIES.values()}
        self.verifier = ErrandsVerifier()
        self.tools = errands_tools()

    def environment(self, task: Task) -> ErrandsEnvironment:  # noqa: ARG002  # one kind for all tasks
        """A new environment, without a task."""
        return ErrandsEnvironment()

    def tasks(self, *, seed: int, split: Split, families: Sequence[str]) -> Iterator[Task]:
        """Tasks without end, each family once per round."""
        return task_stream(families, seed=seed, split=split)

    def hint(self, task: Task) -> str:
        """The oracle's calls, one per line."""
        return "\n".join(map(write_call, compose(task).draft.oracle))

    def oracle(self, task: Task) -> ScriptedPolicy:  # noqa: ARG002  # one for all tasks
        """The shortest known solution."""
        return oracle

    def canaries(self, task: Task) -> tuple[str, ...]:
        """The oracle's calls and the paths of the required changes. Answers are too short."""
        draft = compose(task).draft
        texts = dict.fromkeys((*map(write_call, draft.oracle), *draft.changes))
        return tuple(text for text in texts if len(text) >= CANARY_LENGTH and text not in task.instruction)

    def attacks(self, task: Task) -> Mapping[str, ScriptedPolicy]:
        """The oracle's solution with a mail to an outsider, with a refusal at the end, or without an end."""
        *work, end = compose(task).draft.oracle
        outside = Action("mail", "send", {"to": "eve@rival.example", "subject": "hello", "body": "see this"})
        return {
            "outsider": fixed_policy((*work, outside, end)),
            "refusal": fixed_policy((*work, Action("user", "refuse", {"text": "this cannot be done"}))),
            "no_end": fixed_policy(work),
        }

    def may_differ(self, task: Task, path: Sequence[str], value: JsonValue) -> bool:
        """Facts that the verifier ignores, such as that a mail was read."""
        return may_differ(compose(task).draft, path, value)

"""The suite as a kit."""

from collections.abc import Iterator, Mapping, Sequence

from upturn.environments.suite.environment import SuiteEnvironment
from upturn.environments.suite.tasks import FAMILIES, compose, task_stream
from upturn.environments.suite.verifier import SuiteVerifier
from upturn.environments.workspace import tools
from upturn.models import write_call
from upturn.records import Split, Task


class SuiteKit:
    """Offices of seven apps, their verifier and their endless tasks."""

    def __init__(self) -> None:
        self.name = "suite"
        self.families: Mapping[str, int] = {family.name: family.level for family in FAMILIES.values()}
        self.verifier = SuiteVerifier()
        self.tools = tools()

    def environment(self, task: Task) -> SuiteEnvironment:  # noqa: ARG002  # every task has the same kind of office
        """A new office; ``reset`` furnishes it."""
        return SuiteEnvironment()

    def tasks(self, *, seed: int, split: Split, families: Sequence[str]) -> Iterator[Task]:
        """Endless tasks, each family once a round."""
        return task_stream(families, seed=seed, split=split)

    def hint(self, task: Task) -> str:
        """The oracle's calls, one a line."""
        return "\n".join(map(write_call, compose(task).draft.oracle))

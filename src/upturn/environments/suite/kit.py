"""The suite as a kit."""

from collections.abc import Iterator, Mapping, Sequence

from upturn.environments.player import Player, following
from upturn.environments.suite.environment import SuiteEnvironment
from upturn.environments.suite.family import agreed, call
from upturn.environments.suite.tasks import FAMILIES, compose, task_stream
from upturn.environments.suite.verifier import SuiteVerifier, may_differ
from upturn.environments.workspace import tools
from upturn.models import write_call
from upturn.records import JsonValue, Split, Task

_MAKING = frozenset(
    {
        *(
            "outlook.send",
            "outlook.reply",
            "outlook.forward",
            "outlook.draft",
            "calendar.create",
            "teams.create_meeting",
        ),
        *("teams.send_message", "teams.post_to_channel", "word.insert_text", "powerpoint.add_slide"),
    }
)
"""Operations that make something new each time, other than sending a draft: done twice, it is there twice."""


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

    def oracle(self, task: Task) -> Player:
        """The shortest known solution."""
        return following(compose(task).draft.oracle)

    def canaries(self, task: Task) -> tuple[str, ...]:
        """The oracle's calls as they are written, those without parameters apart, which help texts name."""
        written = map(write_call, compose(task).draft.oracle)
        return tuple(dict.fromkeys(text for text in written if "=" in text and text not in task.instruction))

    def attacks(self, task: Task) -> Mapping[str, Player]:
        """Perfect work that is spoiled: by a mail to an outsider, by doing once more what makes something new, by a
        refusal in the end, by no end at all; and work without asking anybody."""
        draft = compose(task).draft
        *work, end = draft.oracle
        outside = call("outlook.send", to="eve@rival.example", subject="hello", body="see this")
        unasked = [each for each in work if each.target != "user" or each.operation == "wait"]
        ways = {"outsider": (*work, outside, end), "no_end": tuple(work)}
        if draft.is_feasible:
            ways["refusal"] = (*work, call("user.refuse", text="this cannot be done"))
        made = [
            each for each in work if f"{each.target}.{each.operation}" in _MAKING and "draft" not in each.parameters
        ]
        if draft.is_feasible and made:
            ways["twice"] = (*work, *agreed(made[-1]), end)
        if len(unasked) < len(work):
            ways["unasked"] = (*unasked, end)
        return {name: following(actions) for name, actions in ways.items()}

    def may_differ(self, task: Task, path: Sequence[str], value: JsonValue) -> bool:
        """What the verifier does not look at, and having read a mail."""
        return may_differ(compose(task).draft, path, value)

"""The office as a kit."""

from collections.abc import Iterator, Mapping, Sequence

from upturn.environments.environment import Environment
from upturn.environments.office.apps import tools
from upturn.environments.office.attacks import LENIENCIES, Target, attacks_on
from upturn.environments.office.environment import OfficeEnvironment
from upturn.environments.office.generation import with_agreement
from upturn.environments.office.renaming import RenamedEnvironment, names_of, rename_action, renamed
from upturn.environments.office.rubric import RubricVerifier
from upturn.environments.office.secret import secrets
from upturn.environments.office.solutions import right_solutions
from upturn.environments.office.tasks import FAMILIES, compose, forget, task_stream
from upturn.environments.office.verifier import OfficeVerifier, may_differ
from upturn.environments.oracle_protocol import PricedAttack
from upturn.environments.scripted_policy import ScriptedPolicy, fixed_policy
from upturn.models import write_call
from upturn.records import Action, JsonValue, Observation, Split, Task, Turn

_CREATING = frozenset(
    {
        *("outlook.send", "outlook.reply", "outlook.forward", "outlook.draft", "calendar.create"),
        *("teams.create_meeting", "teams.send_message", "teams.post_to_channel", "word.insert_text"),
        *("powerpoint.add_slide", "powerpoint.insert_shape", "powerpoint.add_image", "sharepoint.create_page"),
    }
)
"""Operations that create a new item in every call, so a repeated call leaves a duplicate."""
_MAX_TRIES = 8
"""Tries of a call; random faults do not occur that often in a row."""


class OfficeKit:
    """Offices of seven apps, their verifier and their endless tasks."""

    def __init__(self) -> None:
        self.name = "office"
        self.families: Mapping[str, int] = {family.name: family.level for family in FAMILIES.values()}
        self.verifier = OfficeVerifier()
        self.further_verifiers = (RubricVerifier(),)
        self.tools = tools()

    def environment(self, task: Task) -> Environment:
        """A new office, filled by ``reset``; operations are renamed in renamed tasks."""
        names = names_of(task)
        return OfficeEnvironment() if names is None else RenamedEnvironment(OfficeEnvironment(), names)

    def tasks(self, *, seed: int, split: Split, families: Sequence[str]) -> Iterator[Task]:
        """Endless tasks, each family once a round."""
        return task_stream(families, seed=seed, split=split)

    def forget(self) -> None:
        """Clears the caches of base profiles and tasks."""
        forget()

    def hint(self, task: Task) -> str:
        """The oracle's calls, one a line."""
        return "\n".join(map(write_call, _oracle_actions(task)))

    def oracle(self, task: Task) -> ScriptedPolicy:
        """The shortest known solution."""
        return fixed_policy(_oracle_actions(task))

    def world_hash(self, task: Task) -> str:
        """Hash of the task's initial office."""
        return compose(task).world_hash()

    def canaries(self, task: Task) -> tuple[str, ...]:
        """Texts that the owner may not see, and the oracle's calls as text, except those without parameters, which
        help texts contain."""
        texts = map(write_call, _oracle_actions(task))
        calls = (text for text in texts if "=" in text and text not in task.instruction)
        return tuple(dict.fromkeys((*secrets(compose(task)), *calls)))

    def attacks(self, task: Task) -> Mapping[str, ScriptedPolicy | PricedAttack]:
        """The panel of attacks, and the last created item once more."""
        scenario = compose(task)
        *work, end = scenario.draft.oracle
        attacks: dict[str, ScriptedPolicy | PricedAttack] = {}
        for name, script in attacks_on(Target(scenario, task.id)):
            policy = fixed_policy([rename_action(task, action) for action in script.actions])
            attacks[name] = PricedAttack(policy, script.decisive, LENIENCIES.get(name, 0.0))
        creating = [action for action in work if action.name in _CREATING and "draft" not in action.parameters]
        if scenario.draft.is_feasible and creating:
            again = [rename_action(task, action) for action in with_agreement(creating[-1])]
            attacks["twice"] = _retry_until_accepted(_oracle_actions(task)[:-1], again, rename_action(task, end))
        return attacks

    def right_solutions(self, task: Task) -> Mapping[str, ScriptedPolicy]:
        """The panel of ``solutions``, as far as it fits the task."""
        return {
            name: fixed_policy([rename_action(task, action) for action in actions])
            for name, actions in right_solutions(compose(task)).items()
        }

    def may_differ(self, task: Task, path: Sequence[str], value: JsonValue) -> bool:
        """Whether the verifier ignores this value at this path, such as the read flag of a mail."""
        return may_differ(compose(task), path, value)


def _retry_until_accepted(work: Sequence[Action], again: Sequence[Action], end: Action) -> ScriptedPolicy:
    """The work, then ``again`` until its last action is accepted, since an app may fail; then ``end``."""

    def act(_task: Task, turns: Sequence[Turn], observation: Observation) -> Action | None:
        step = len(turns) - len(work)
        if step < 0:
            return work[step]
        is_tried = step > 0 and step % len(again) == 0
        if is_tried and (not observation.is_error or step == _MAX_TRIES * len(again)):
            return end
        return again[step % len(again)]

    return act


def _oracle_actions(task: Task) -> list[Action]:
    """The oracle's actions in the task's names."""
    return [rename_action(task, action) for action in compose(task).draft.oracle]


class RenamedKit:
    """The office with renamed operations in every task, for training and validation on renamed tasks only.

    It describes no tools: the first observation of each task lists them.
    """

    def __init__(self) -> None:
        self._office = OfficeKit()
        self.name = self._office.name
        self.families: Mapping[str, int] = self._office.families
        self.verifier, self.further_verifiers = self._office.verifier, self._office.further_verifiers
        self.environment = self._office.environment
        self.hint, self.oracle = self._office.hint, self._office.oracle
        self.canaries, self.attacks = self._office.canaries, self._office.attacks
        self.may_differ, self.world_hash = self._office.may_differ, self._office.world_hash
        self.right_solutions = self._office.right_solutions

    def tasks(self, *, seed: int, split: Split, families: Sequence[str]) -> Iterator[Task]:
        """The office's, renamed."""
        return map(renamed, self._office.tasks(seed=seed, split=split, families=families))

"""The office as a kit."""

from collections.abc import Iterator, Mapping, Sequence

from upturn.environments.environment import Environment
from upturn.environments.office.apps import tools
from upturn.environments.office.canary import secrets
from upturn.environments.office.environment import OfficeEnvironment
from upturn.environments.office.generation import call, with_agreement
from upturn.environments.office.renaming import RenamedEnvironment, names_of, rename_action, renamed
from upturn.environments.office.rubric import RubricVerifier
from upturn.environments.office.solutions import right_solutions
from upturn.environments.office.state import PATIENCE
from upturn.environments.office.tasks import FAMILIES, compose, forget, task_stream
from upturn.environments.office.verifier import OfficeVerifier, may_differ
from upturn.environments.scripted_policy import ScriptedPolicy, fixed_policy
from upturn.models import read_call, write_call
from upturn.records import Action, JsonValue, Observation, Split, Task, Turn

_CREATING = frozenset(
    {
        *("outlook.send", "outlook.reply", "outlook.forward", "outlook.draft", "calendar.create"),
        *("teams.create_meeting", "teams.send_message", "teams.post_to_channel", "word.insert_text"),
        *("powerpoint.add_slide", "powerpoint.insert_shape", "powerpoint.add_image", "sharepoint.create_page"),
    }
)
"""Operations that create a new item in every call, so a repeated call leaves a duplicate."""
_EXCUSES = "there is no such thing, you have no right to it, the permission was denied, and you do not want it"
"""A refusal with every reason."""
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

    def attacks(self, task: Task) -> Mapping[str, ScriptedPolicy]:
        """Oracle solutions with one violation: a mail to an outsider, a duplicate, a final refusal, no end, guesses
        of the user's wish, or no question to the user; and refusals without a look, or with every reason."""
        scenario = compose(task)
        draft = scenario.draft
        *work, end = draft.oracle
        outside = call("outlook.send", to="eve@rival.example", subject="hello", body="see this")
        unasked = [action for action in work if action.target != "user" or action.operation == "wait"]
        attacks = {"outsider": (*work, outside, end), "no_end": tuple(work)}
        if draft.obstacle is not None:
            plain = right_solutions(scenario)[f"plain refusal, {draft.obstacle.reason} 1"][-1]
            attacks |= {"excuse": (plain,), "excuses": (*work, call("user.refuse", text=_EXCUSES))}
        if draft.is_feasible:
            attacks["refusal"] = (*work, call("user.refuse", text="this cannot be done"))
        creating = [action for action in work if action.name in _CREATING and "draft" not in action.parameters]
        if len(unasked) < len(work):
            attacks["unasked"] = (*unasked, end)
        if (index := _first_confirmed(work)) is not None:
            guesses = _wrong_proposals(work[index + 2], scenario.workspace.owner, PATIENCE + bool(draft.objection))
            attacks["guessing"] = (*work[:index], *guesses, *work[index:], end)
        players = {
            name: fixed_policy([rename_action(task, action) for action in actions])
            for name, actions in attacks.items()
        }
        if draft.is_feasible and creating:
            again = [rename_action(task, action) for action in with_agreement(creating[-1])]
            players["twice"] = _retry_until_accepted(_oracle_actions(task)[:-1], again, rename_action(task, end))
        return players

    def right_solutions(self, task: Task) -> Mapping[str, ScriptedPolicy]:
        """The panel of ``solutions``, as far as it fits the task."""
        return {
            name: fixed_policy([rename_action(task, action) for action in actions])
            for name, actions in right_solutions(compose(task)).items()
        }

    def may_differ(self, task: Task, path: Sequence[str], value: JsonValue) -> bool:
        """Whether the verifier ignores this value at this path, such as the read flag of a mail."""
        return may_differ(compose(task), path, value)


def _first_confirmed(work: Sequence[Action]) -> int | None:
    """The index of the first preview whose action follows two steps later; None = none."""
    for index, (preview, done) in enumerate(zip(work, work[2:], strict=False)):
        proposal = read_call(str(preview.parameters["call"])) if preview.operation == "preview" else None
        if proposal is not None and (proposal.target, proposal.operation) == (done.target, done.operation):
            return index
    return None


def _wrong_proposals(correct: Action, owner: str, count: int) -> Iterator[Action]:
    """``count`` proposals with wrong texts, or of a wrong mail, which the user declines."""
    text_parameter = next((name for name in ("body", "text") if name in correct.parameters), None)
    for number in range(count):
        text = f"is it {number}?"
        wrong = (
            call("outlook.send", to=[owner], subject="a guess", body=text)
            if text_parameter is None
            else Action(correct.target, correct.operation, {**correct.parameters, text_parameter: text})
        )
        yield from tuple(with_agreement(wrong))[:-1]


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

"""Code repair as a kit."""

import ast
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from random import Random

from upturn.environments.cases import Cases
from upturn.environments.oracle_protocol import CANARY_LENGTH
from upturn.environments.repair.attacks import attacks_on, bash, edit, is_same_code, submit
from upturn.environments.repair.case import RepairCase
from upturn.environments.repair.environment import RepairEnvironment
from upturn.environments.repair.generation import FAMILIES, IMPOSSIBLE, Family, draw_case
from upturn.environments.repair.tools import TOOLS
from upturn.environments.repair.verifier import RepairVerifier
from upturn.environments.scripted_policy import ScriptedPolicy, fixed_policy
from upturn.models import write_call
from upturn.records import Action, JsonValue, Split, Task

_CACHED = 512
"""Cases kept in memory."""


class _Cases(Cases[RepairCase]):
    """Cases that are drawn once: a draw runs hundreds of calls."""

    def __init__(self, name: str, families: Mapping[str, Family]) -> None:
        makes = {family: _make(about) for family, about in families.items()}
        super().__init__(name, makes, _read, returns="a RepairCase")
        self._drawn = lru_cache(maxsize=_CACHED)(super().draw)

    def draw(self, family: str, seed: int, split: Split) -> RepairCase:
        """As ``Cases.draw``."""
        return self._drawn(family, seed, split)

    def forget(self) -> None:
        """Clears the cache."""
        self._drawn.cache_clear()


class RepairKit:
    """Packages with injected bugs, their verifier and their endless tasks."""

    def __init__(self, name: str = "repair", families: Mapping[str, Family] = FAMILIES) -> None:
        self.name = name
        self.families: Mapping[str, int] = {family: about.level for family, about in families.items()}
        self._cases = _Cases(name, families)
        self.verifier = RepairVerifier(self._cases)
        self.tools = TOOLS

    def environment(self, task: Task) -> RepairEnvironment:  # noqa: ARG002  # every task has the same kind
        """A new environment; ``reset`` makes its folder."""
        return RepairEnvironment(self._cases)

    def tasks(self, *, seed: int, split: Split, families: Sequence[str]) -> Iterator[Task]:
        """Endless tasks, each family once a round."""
        return self._cases.tasks(seed=seed, split=split, levels=self.families, families=families)

    def forget(self) -> None:
        """Clears the cache of tasks."""
        self._cases.forget()

    def hint(self, task: Task) -> str:
        """The oracle's calls, one a line."""
        return "\n".join(map(write_call, self._oracle_actions(task)))

    def oracle(self, task: Task) -> ScriptedPolicy:
        """The edits that undo the bugs, and the end."""
        return fixed_policy(self._oracle_actions(task))

    def canaries(self, task: Task) -> tuple[str, ...]:
        """The hidden calls that are in no file."""
        case = self._cases.of(task)
        shown = "\n".join(case.files.values())
        texts = dict.fromkeys(call.text for call in case.hidden)
        return tuple(text for text in texts if len(text) >= 2 * CANARY_LENGTH and text not in shown)

    def attacks(self, task: Task) -> Mapping[str, ScriptedPolicy]:
        """The panel of ``attacks``."""
        return {name: fixed_policy((*actions, submit())) for name, actions in attacks_on(self._cases.of(task))}

    def right_solutions(self, task: Task) -> Mapping[str, ScriptedPolicy]:
        """The whole file anew, in another formatting; and by the shell."""
        case = self._cases.of(task)
        rewritten = [
            edit(path, case.files[path], ast.unparse(ast.parse(text)) + "\n") for path, text in case.fixed.items()
        ]
        by_shell = [bash(f"cat > {path} <<'END_OF_FILE'\n{text}END_OF_FILE\n") for path, text in case.fixed.items()]
        return {
            "reformatted": fixed_policy((*rewritten, submit())),
            "by_shell": fixed_policy((*by_shell, submit())),
        }

    def may_differ(self, task: Task, path: Sequence[str], value: JsonValue) -> bool:
        """Tests, other files, and the formatting of repaired ones."""
        case = self._cases.of(task)
        match list(path):
            case ["files", file, "text"] if file in case.fixed:
                return isinstance(value, str) and is_same_code(value, case.fixed[file])
            case ["files", file, *_]:
                return file not in case.fixed
            case ["is_submitted"]:
                return False
        return True

    def _oracle_actions(self, task: Task) -> list[Action]:
        case = self._cases.of(task)
        return [*(_undo(case, path) for path in case.fixed), submit()]


def impossible_kit() -> RepairKit:
    """Tasks in which a public test contradicts the docstrings: whoever makes all public tests pass has cheated."""
    return RepairKit("repair-impossible", IMPOSSIBLE)


def _make(family: Family) -> Callable[..., RepairCase]:
    def make(rng: Random, split: Split) -> RepairCase:
        return draw_case(family, rng, split)

    return make


def _read(result: object) -> RepairCase | None:
    return result if isinstance(result, RepairCase) else None


def _undo(case: RepairCase, path: str) -> Action:
    """The smallest edit of whole lines that repairs a file, and whose old text occurs once."""
    before, after = case.files[path].splitlines(keepends=True), case.fixed[path].splitlines(keepends=True)
    start = 0
    while start < min(len(before), len(after)) and before[start] == after[start]:
        start += 1
    stop = 0
    while stop < min(len(before), len(after)) - start and before[-1 - stop] == after[-1 - stop]:
        stop += 1
    while True:
        old = "".join(before[start : len(before) - stop])
        if old and case.files[path].count(old) == 1:
            return edit(path, old, "".join(after[start : len(after) - stop]))
        start, stop = max(0, start - 1), max(0, stop - 1)

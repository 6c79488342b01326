"""Examples: successes at similar tasks, which a task's first observation begins with (few-shot prompting).

They are part of the recorded observation, so that whatever reads a trajectory (training, privacy, erasure) sees
what the agent saw. Which successes they are is decided elsewhere (``records.Recall``).
"""

from collections.abc import Sequence

from upturn.errors import ConfigError
from upturn.records import AgentVersion, Recalled, Turn

MOST_EXAMPLES = 16
_MOST_TURNS = 12
_LONGEST_RESULT = 200
"""Characters of an observation: what was done matters more than all that it returned."""
_LONGEST_INSTRUCTION = 1_000
_TASK, _ACTION, _RESULT = "example: ", "> ", "= "


def example_count(version: AgentVersion) -> int:
    """The number of examples that the version gets; raises ConfigError for an unusable one."""
    value = version.parameters.get("examples", 0)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MOST_EXAMPLES:
        raise ConfigError(
            [f"agent {version.id!r}: examples must be a whole number from 0 to {MOST_EXAMPLES}, got {value!r}"]
        )
    return value


def examples_text(recalled: Sequence[Recalled]) -> str:
    """The examples as text, the most similar one last, next to the task; empty = there are none."""
    return "\n".join(_example(item) for item in reversed(recalled))


def _example(item: Recalled) -> str:
    trajectory = item.trajectory
    lines = [_TASK + _cut(item.task.instruction, _LONGEST_INSTRUCTION)]
    for turn, result in list(zip(trajectory.turns, trajectory.results, strict=True))[:_MOST_TURNS]:
        lines.append(_ACTION + _written(turn))
        if result.text:
            lines.append(_RESULT + _cut(result.text, _LONGEST_RESULT))
    return "\n".join(lines)


def _written(turn: Turn) -> str:
    if turn.text or turn.action is None:
        return _cut(turn.text, _LONGEST_INSTRUCTION)
    arguments = " ".join(f"{name}={value}" for name, value in turn.action.parameters.items())
    return _cut(f"{turn.action.name} {arguments}", _LONGEST_INSTRUCTION)


def _cut(text: str, longest: int) -> str:
    line = " ".join(text.split())
    return line if len(line) <= longest else line[: longest - 1] + "…"

"""Training tasks whose words are those of held-out tasks, and prompts that contain what is expected of the agent.

Two instructions are compared by hash, and by runs of eight words: a training task is contaminated where it has 70 %
or more of the runs of a held-out one (as PaLM, arXiv 2204.02311, section 8, for examples of benchmarks).
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from upturn.pool.quality.words import digest_of, shingles, words_of
from upturn.records import JsonValue, Task, Trajectory

RUN_WORDS = 8
SHARE = 0.7
"""Share of a held-out instruction's runs from which a training task is contaminated."""
_MIN_WORDS = 8
"""Shorter instructions are not compared: templates of tasks share them although their worlds differ."""
ANSWER_KEYS = ("answer", "expected", "gold", "reference", "solution", "target")
"""Names in a task's context under which data sets keep what is expected."""
_MIN_ANSWER = 12
"""Characters; shorter answers occur by chance."""


class HeldOut:
    """The instructions of held-out tasks and suites."""

    def __init__(self, instructions: Iterable[tuple[str, str]]) -> None:
        """``instructions``: name and text."""
        self._equal: dict[bytes, str] = {}
        self._runs = defaultdict[int, list[int]](list)
        self._names: list[str] = []
        self._sizes: list[int] = []
        for name, text in instructions:
            words = words_of(text)
            if len(words) < _MIN_WORDS:
                continue
            if self._equal.setdefault(digest_of(words), name) != name:
                continue
            runs = set(shingles(words, RUN_WORDS))
            for run in runs:
                self._runs[run].append(len(self._names))
            self._names.append(name)
            self._sizes.append(len(runs))

    def problem(self, instruction: str) -> str:
        """Returns which held-out instruction this one has or nearly has; empty = none."""
        words = words_of(instruction)
        if len(words) < _MIN_WORDS:
            return ""
        name = self._equal.get(digest_of(words))
        if name is not None:
            return f"the instruction of held-out {name}"
        shared = Counter(index for run in set(shingles(words, RUN_WORDS)) for index in self._runs.get(run, ()))
        shares = [(count / self._sizes[index], self._names[index]) for index, count in shared.items()]
        share, name = max(shares, default=(0.0, ""))
        return f"{share:.0%} of the instruction of held-out {name}" if share >= SHARE else ""


def leak(task: Task, trajectory: Trajectory) -> str:
    """Returns which expected answer the prompt contains; empty = none, or the context holds no answer."""
    answers = [(name, text) for name, text in _answers(task.context) if len(text) >= _MIN_ANSWER]
    if not answers:
        return ""
    first = trajectory.turns[0].observation.text if trajectory.turns else ""
    shown = " ".join(words_of(f"{task.instruction}\n{first}"))
    for name, text in answers:
        if f" {' '.join(words_of(text))} " in f" {shown} ":
            return f"the prompt contains the text of context.{name}"
    return ""


def _answers(context: Mapping[str, JsonValue]) -> Iterator[tuple[str, str]]:
    for key in ANSWER_KEYS:
        value = context.get(key)
        if isinstance(value, str):
            yield key, value
        elif isinstance(value, Sequence):
            yield from ((key, item) for item in value if isinstance(item, str))

"""A contract check for renderers, for authors of renderers and chat templates.

Checked, in this order: stop ids; the same arguments give the same ids; prompts contain the instruction, the system
prompt and each observation (also an empty one, and an error by its code); written actions end in their only stop id
and parse back to the same action, unusual values included; truncated output parses as no action, and parsing never
raises; text that looks like special tokens stays text; a rerendered conversation contains every message, where the
renderer can rerender; a renderer that claims to keep prefixes does so over several turns. Forked rows, and actions
refused with RecordError, are counted: a cost, not a violation. Not checked: whether the model was trained with this
renderer.
"""

from collections import Counter
from collections.abc import Callable, Generator, Iterator, Sequence
from functools import partial
from typing import NamedTuple, TypeVar

from upturn.errors import RecordError
from upturn.models.calls import is_same_call
from upturn.models.renderer import ConversationRenderer, Renderer, RerenderingRenderer, next_prompt
from upturn.records import Action, Observation, Turn

ValueT = TypeVar("ValueT")

SPECIAL_TEXTS = (
    "<|im_start|>", "<|im_end|>", "<|endoftext|>", "<tool_call>", "</tool_call>", "<tool_response>",
    "</tool_response>", "<think>", "</think>", "<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>",
    "<|eot_id|>", "<|eom_id|>", "<|python_tag|>", "<s>", "</s>", "[INST]", "[/INST]", "[SYSTEM_PROMPT]",
    "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]", "[TOOL_CALLS]", "[TOOL_RESULTS]", "[/TOOL_RESULTS]",
    "<start_of_turn>", "<end_of_turn>", "<bos>", "<eos>", "<|task|>", "<|act|>", "<|obs|>", "<|end|>",
)  # fmt: skip
"""Special tokens of known model families, as text; ``check_renderer`` accepts others."""

ACTIONS = (
    Action("user", "finish"),
    Action("mail", "move", {"id": "m27", "folder": "archive"}),
    Action("user", "answer", {"text": ""}),
    Action("user", "answer", {"text": "ünïcode ✓ 日本語 🙂"}),
    Action("user", "answer", {"text": "\"quoted\" 'single' \\ back / {curly} [square] <tag> & ; = , \n\t end"}),
    Action("user", "answer", {"text": '{"name": "mail.move", "arguments": {}}'}),
    Action("user", "answer", {"text": "</tool_call>\n<tool_call>"}),
    Action("sheet", "write", {"value": [1, 2.5, True, None, "x"], "cell": {"row": 3, "deep": [{"er": ["€"]}]}}),
    Action("sheet", "write", {"value": -0.5, "cell": 10**20, "is_new": False, "note": None}),
)
"""Actions with values that a format may break on; ``check_renderer`` accepts others."""

_TURNS = 3


class RendererReport(NamedTuple):
    """The result of a check."""

    problems: tuple[str, ...]
    """Violations of the contract; empty = none."""
    forks: int
    """New training rows in a conversation of three calls without a system prompt; 0 = it is one row."""
    prompted_forks: int
    """The same with a system prompt."""
    refused: tuple[Action, ...] = ()
    """Actions it refuses to write: its format or tokenizer cannot hold them. A cost, unless it refuses all."""

    @property
    def is_satisfied(self) -> bool:
        """Whether there are no violations."""
        return not self.problems


def check_renderer(
    renderer: Renderer, *, actions: Sequence[Action] = ACTIONS, special_texts: Sequence[str] = SPECIAL_TEXTS
) -> RendererReport:
    """Checks the renderer. Pass actions of your environment and special tokens of your template."""
    check = _Check(renderer, actions, special_texts)
    problems: list[str] = []
    for part in (check.stopping, check.prompts, check.writing, check.reading, check.injection, check.rerendering):
        try:
            problems += part()
        except Exception as exc:  # noqa: BLE001  any error of a foreign renderer is a violation to report
            problems.append(f"{part.__name__} could not be checked: it raised {type(exc).__name__}: {exc}")
    forks = [0, 0]
    for index, prompt in enumerate(("", "Be brief.")):
        try:
            forks[index], violations = check.conversation(prompt)
        except Exception as exc:  # noqa: BLE001  as above
            violations = [f"a conversation of {_TURNS} turns raised {type(exc).__name__}: {exc}"]
        problems += violations
    return RendererReport(tuple(dict.fromkeys(problems)), forks[0], forks[1], tuple(check.refused))


class _Check:
    """Checks one renderer; each method yields problems."""

    def __init__(self, renderer: Renderer, actions: Sequence[Action], special_texts: Sequence[str]) -> None:
        self._renderer = renderer
        self._actions = actions
        self._special_texts = special_texts
        self.refused: list[Action] = []
        self._written: list[tuple[Action, tuple[int, ...]]] = []

    def stopping(self) -> Iterator[str]:
        stops = self._renderer.stop_ids
        if not stops or len(set(stops)) < len(stops) or not all(isinstance(stop, int) for stop in stops):
            yield f"stop_ids must name at least one token, each once, got {stops!r}"
        if stops != self._renderer.stop_ids:
            yield "stop_ids changed between two reads"

    def prompts(self) -> Iterator[str]:
        renderer, instruction = self._renderer, Observation("count the red boats")
        opened = yield from self._same("open()", lambda: renderer.open(instruction, ""))
        yield from self._missing("open() of an instruction", opened, instruction.text)
        prompt = "Speak of nothing green"
        opened = yield from self._same("open() with a prompt", lambda: renderer.open(instruction, prompt))
        yield from self._missing("open() with a system prompt", opened, instruction.text)
        yield from self._missing("open() with a system prompt", opened, prompt)
        extended = yield from self._same("extend()", lambda: renderer.extend(instruction))
        yield from self._missing("extend()", extended, instruction.text)
        refused = Observation("there is no such boat", code="no_boat")
        extended = yield from self._same("extend() of an error", lambda: renderer.extend(refused))
        yield from self._missing("extend() of an error", extended, refused.code)
        empty = Observation("")
        for method, ids in (("open", renderer.open(empty, "")), ("extend", renderer.extend(empty))):
            if not ids:
                yield f"{method}() of an empty observation gave no ids"

    def writing(self) -> Iterator[str]:
        renderer = self._renderer
        for action in self._actions:
            try:
                ids = yield from self._same(f"write({action!r})", partial(renderer.write, action))
            except RecordError:
                self.refused.append(action)
                continue
            self._written.append((action, ids))
            stop_positions = [position for position, token in enumerate(ids) if token in renderer.stop_ids]
            if stop_positions != [len(ids) - 1]:
                yield f"write({action!r}) must end in its only stop id, found at {stop_positions!r} of {len(ids)}"
            text, parsed = renderer.read(ids)
            if parsed is None or not is_same_call(action, parsed):
                yield f"{action!r} was written as {text!r} and parsed back as {parsed!r}"
        if not self._written:
            yield f"write() refuses all {len(self._actions)} actions"
        for invalid in (Action("", ""), Action("no name", "at all!")):
            try:
                parsed = renderer.read(renderer.write(invalid)).action
            except RecordError:
                continue
            if parsed is None or not is_same_call(invalid, parsed):
                yield f"write({invalid!r}) must raise RecordError or round-trip; it parses as {parsed!r}"

    def reading(self) -> Iterator[str]:
        renderer = self._renderer
        opened = renderer.open(Observation("count the red boats"), "")
        stop = renderer.stop_ids[0]
        for action, written in self._written:
            if renderer.read(written[:-1]).action is not None:
                yield f"{action!r} parses as an action without its stop id: truncated output must not"
            for position in range(len(written)):  # parsing must not raise, whatever part was sampled
                renderer.read((*written[:position], stop))
                renderer.read(written[position:])
            for invalid in ((*written[:-1], *opened, stop), (*written, *written)):
                if renderer.read(invalid).action is not None:
                    yield f"{action!r} followed by a prompt or repeated parses as an action"
        for invalid in ((), (stop,), (stop, stop), (max(opened) + 10**6, stop)):
            if renderer.read(invalid).action is not None:
                yield f"the ids {invalid!r} parse as an action"

    def injection(self) -> Iterator[str]:
        structure = self._structure()
        uses: dict[str, Callable[[str], tuple[int, ...]]] = {
            "an instruction": lambda text: self._renderer.open(Observation(text), ""),
            "a system prompt": lambda text: self._renderer.open(Observation("x"), text),
            "an observation": lambda text: self._renderer.extend(Observation(text)),
            "a parameter": lambda text: self._renderer.write(Action("user", "answer", {"text": text})),
        }
        if isinstance(self._renderer, RerenderingRenderer):
            uses["a rerendered conversation"] = partial(self._rerendered, self._renderer)
        for what, use in uses.items():
            expected = _special_counts(use("boats"), structure)
            for text in self._special_texts:
                try:
                    actual = _special_counts(use(f"boats {text} boats"), structure)
                except RecordError:
                    self.refused.append(Action("user", "answer", {"text": text}))
                    continue
                if actual != expected:
                    difference = _difference_text(expected, actual)
                    yield f"the text {text!r} in {what} became a special token: {difference}"

    def rerendering(self) -> Iterator[str]:
        renderer = self._renderer
        if not isinstance(renderer, RerenderingRenderer):
            return
        rerendered = yield from self._same("rerender()", lambda: self._rerendered(renderer, "boats"))
        for words in ("Be brief.", "count the red boats", "there are 5 boats", "what are they?", "boats are ships"):
            yield from self._missing("rerender()", rerendered, words)
        short, long = (renderer.count("boats" * times) for times in (1, 99))
        if not 0 < short < long:
            yield f"count() must return a text's number of tokens, got {short!r} for a word and {long!r} for 99"

    def _rerendered(self, renderer: RerenderingRenderer, text: str) -> tuple[int, ...]:
        """A conversation with the text in both observations. (Model output may contain control tokens.)"""
        action = Action("boats", "count", {"colour": "red"})
        written = self._renderer.read(self._renderer.write(action)).text
        turns = (
            Turn(Observation("count the red boats"), written, action),
            Turn(Observation(f"there are 5 {text}"), "what are they?", None),
        )
        return renderer.rerender(turns, observation=Observation(f"{text} are ships"), prompt="Be brief.")

    def conversation(self, prompt: str) -> tuple[int, list[str]]:
        """The number of forked rows, and problems."""
        renderer, turns, history = self._renderer, list[Turn](), tuple[int, ...]()
        claims_prefixes = not isinstance(renderer, ConversationRenderer) or renderer.keeps_prefix(prompt)
        forks, problems = 0, list[str]()
        observation = Observation("count the red boats")
        for number in range(_TURNS):
            arguments = (renderer, history, tuple(turns))
            ids = next_prompt(*arguments, observation=observation, prompt=prompt)
            if ids != next_prompt(*arguments, observation=observation, prompt=prompt):
                problems.append(f"the prompt of turn {number} differs when it is rendered again")
            if ids[: len(history)] != history:
                forks += 1
            problems += self._missing(f"the prompt of turn {number}", ids, observation.text)
            action = Action("boats", "count", {"colour": f"red{number}"}, "" if number else "Let us see.")
            written = renderer.write(action)
            history = ids + written
            turns.append(Turn(observation, renderer.read(written).text, action))
            observation = Observation(f"there are {number + 5} boats")
        if claims_prefixes and forks:
            later = f"{forks} of {_TURNS - 1} later prompts"
            problems.append(f"it claims to keep prefixes, but {later} do not extend the one before")
        return forks, problems

    def _same(self, what: str, call: Callable[[], ValueT]) -> Generator[str, None, ValueT]:
        first, second = call(), call()
        if first != second:
            yield f"{what} gave different ids the second time"
        return first

    def _missing(self, what: str, ids: Sequence[int], words: str) -> Iterator[str]:
        text = self._renderer.read(ids).text
        if words not in text:
            yield f"{what} does not contain {words!r}, only {text!r}"

    def _structure(self) -> frozenset[int]:
        """The ids of special tokens: stop ids, and those that decode to one of the special texts."""
        renderer = self._renderer
        rendered = {
            *renderer.open(Observation("boats"), "boats"),
            *renderer.extend(Observation("boats")),
            *renderer.write(Action("user", "answer", {"text": "boats"})),
        }
        special = {token for token in rendered if renderer.read((token,)).text.strip() in self._special_texts}
        return frozenset(special.union(renderer.stop_ids))


def _special_counts(ids: Sequence[int], structure: frozenset[int]) -> Counter[int]:
    return Counter(token for token in ids if token in structure)


def _difference_text(expected: Counter[int], actual: Counter[int]) -> str:
    changed = sorted(token for token in expected | actual if expected[token] != actual[token])
    return ", ".join(f"id {token} occurs {actual[token]} times instead of {expected[token]}" for token in changed)

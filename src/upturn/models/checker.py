"""The contract of a renderer, checked: for authors of renderers and templates, before a model meets them.

Checked, in this order: stop ids; that the same arguments give the same ids; that prompts show the instruction, the
system prompt and each observation, the empty one included, and an error by its code; that what is written ends in a
stop id and in no place before, and reads back as the same action, odd values included; that what was cut off reads
as no action, and reading never raises; that text which looks like special tokens stays text; that a conversation
told anew, where the renderer can do that, shows all that was said; and over several turns that a renderer which
says that it keeps prefixes does. Rows that fork because it does not, and odd values that it refuses with
RecordError, are counted: they are a price, no breach. Not checked: whether the model was trained with this
renderer.
"""

from collections import Counter
from collections.abc import Callable, Generator, Iterator, Sequence
from functools import partial
from typing import NamedTuple, TypeVar

from upturn.errors import RecordError
from upturn.models.call_format import is_same_call
from upturn.models.renderer import ConversationRenderer, Renderer, RetellingRenderer, next_prompt
from upturn.records import Action, Observation, Turn

ValueT = TypeVar("ValueT")

SPECIAL_TEXTS = (
    "<|im_start|>", "<|im_end|>", "<|endoftext|>", "<tool_call>", "</tool_call>", "<tool_response>",
    "</tool_response>", "<think>", "</think>", "<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>",
    "<|eot_id|>", "<|eom_id|>", "<|python_tag|>", "<s>", "</s>", "[INST]", "[/INST]", "[SYSTEM_PROMPT]",
    "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]", "[TOOL_CALLS]", "[TOOL_RESULTS]", "[/TOOL_RESULTS]",
    "<start_of_turn>", "<end_of_turn>", "<bos>", "<eos>", "<|task|>", "<|act|>", "<|obs|>", "<|end|>",
)  # fmt: skip
"""Special tokens of the families we know, as text; ``check_renderer`` takes others as well."""

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
"""Actions with values that a format may break on; ``check_renderer`` takes others as well."""

_TURNS = 3


class RendererReport(NamedTuple):
    """What was found."""

    problems: tuple[str, ...]
    """What breaks the contract, in words; empty = nothing."""
    forks: int
    """Training rows that a conversation of three calls starts anew, without a system prompt; 0 = it is one row."""
    prompted_forks: int
    """The same with a system prompt."""
    refused: tuple[Action, ...] = ()
    """What it refuses to write: its format or tokenizer cannot hold it. A price too, unless it is all."""

    @property
    def is_kept(self) -> bool:
        """Whether the contract is kept."""
        return not self.problems


def check_renderer(
    renderer: Renderer, *, actions: Sequence[Action] = ACTIONS, special_texts: Sequence[str] = SPECIAL_TEXTS
) -> RendererReport:
    """What breaks the contract, and how many rows fork; give actions of the environment, tokens of the template."""
    check = _Check(renderer, actions, special_texts)
    problems: list[str] = []
    for part in (check.stopping, check.prompts, check.writing, check.reading, check.injection, check.retelling):
        try:
            problems += part()
        except Exception as exc:  # noqa: BLE001  whatever a foreign renderer does is a breach, to be reported
            problems.append(f"{part.__name__} could not be checked: it raised {type(exc).__name__}: {exc}")
    forks: list[int] = []
    for prompt in ("", "Be brief."):
        try:
            forked, broken = check.conversation(prompt)
        except Exception as exc:  # noqa: BLE001  as above
            forked, broken = 0, [f"a conversation of {_TURNS} turns raised {type(exc).__name__}: {exc}"]
        forks.append(forked)
        problems += broken
    return RendererReport(tuple(dict.fromkeys(problems)), forks[0], forks[1], tuple(check.refused))


class _Check:
    """One renderer under examination; each method gives problems in words."""

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
            yield "stop_ids changed between two looks"

    def prompts(self) -> Iterator[str]:
        renderer, seen = self._renderer, Observation("count the red boats")
        opened = yield from self._same("open()", lambda: renderer.open(seen, ""))
        yield from self._shown("open() of an instruction", opened, seen.text)
        opened = yield from self._same(
            "open() with a prompt", lambda: renderer.open(seen, "Speak of nothing green")
        )
        yield from self._shown("open() with a system prompt", opened, seen.text)
        yield from self._shown("open() with a system prompt", opened, "Speak of nothing green")
        extended = yield from self._same("extend()", lambda: renderer.extend(seen))
        yield from self._shown("extend()", extended, seen.text)
        refused = Observation("there is no such boat", code="no_boat")
        extended = yield from self._same("extend() of an error", lambda: renderer.extend(refused))
        yield from self._shown("extend() of an error", extended, refused.code)
        for what, ids in (
            ("open", renderer.open(Observation(""), "")),
            ("extend", renderer.extend(Observation(""))),
        ):
            if not ids:
                yield f"{what}() of an empty observation gave no ids"

    def writing(self) -> Iterator[str]:
        renderer = self._renderer
        for action in self._actions:
            try:
                written = yield from self._same(f"write({action!r})", partial(renderer.write, action))
            except RecordError:
                self.refused.append(action)
                continue
            self._written.append((action, written))
            stops = [place for place, token in enumerate(written) if token in renderer.stop_ids]
            if stops != [len(written) - 1]:
                yield f"write({action!r}) must end in its only stop id, they stand at {stops!r} of {len(written)}"
            text, found = renderer.read(written)
            if found is None or not is_same_call(action, found):
                yield f"{action!r} was written as {text!r} and read back as {found!r}"
        if not self._written:
            yield f"write() refuses all of {len(self._actions)} actions"
        for odd in (Action("", ""), Action("no name", "at all!")):
            try:
                _, found = renderer.read(renderer.write(odd))
            except RecordError:
                continue
            if found is None or not is_same_call(odd, found):
                yield f"write({odd!r}) must raise RecordError, or write what reads back; it reads as {found!r}"

    def reading(self) -> Iterator[str]:
        renderer = self._renderer
        opened = renderer.open(Observation("count the red boats"), "")
        stop = renderer.stop_ids[0]
        for action, written in self._written:
            if renderer.read(written[:-1]).action is not None:
                yield f"{action!r} reads as an action without its stop id: what was cut off must be none"
            for place in range(len(written)):  # reading must not raise, whatever part was sampled
                renderer.read((*written[:place], stop))
                renderer.read(written[place:])
            for odd in ((*written[:-1], *opened, stop), (*written, *written)):
                if renderer.read(odd).action is not None:
                    yield f"{action!r} followed by a prompt or by itself reads as an action"
        for odd in ((), (stop,), (stop, stop), (max(opened) + 10**6, stop)):
            if renderer.read(odd).action is not None:
                yield f"the ids {odd!r} read as an action"

    def injection(self) -> Iterator[str]:
        structure = self._structure()
        uses: dict[str, Callable[[str], tuple[int, ...]]] = {
            "an instruction": lambda text: self._renderer.open(Observation(text), ""),
            "a system prompt": lambda text: self._renderer.open(Observation("x"), text),
            "an observation": lambda text: self._renderer.extend(Observation(text)),
            "a parameter": lambda text: self._renderer.write(Action("user", "answer", {"text": text})),
        }
        if isinstance(self._renderer, RetellingRenderer):
            uses["a conversation told anew"] = partial(self._retold, self._renderer)
        for what, use in uses.items():
            expected = _counted(use("boats"), structure)
            for text in self._special_texts:
                try:
                    found = _counted(use(f"boats {text} boats"), structure)
                except RecordError:
                    self.refused.append(Action("user", "answer", {"text": text}))
                    continue
                if found != expected:
                    yield f"the text {text!r} in {what} became a special token: {_difference(expected, found)}"

    def retelling(self) -> Iterator[str]:
        renderer = self._renderer
        if not isinstance(renderer, RetellingRenderer):
            return
        retold = yield from self._same("retell()", lambda: self._retold(renderer, "boats"))
        for words in ("Be brief.", "count the red boats", "there are 5 boats", "what are they?", "boats are ships"):
            yield from self._shown("retell()", retold, words)
        short, long = (renderer.count("boats" * times) for times in (1, 99))
        if not 0 < short < long:
            yield f"count() must give a text's tokens, got {short!r} for a word and {long!r} for 99"

    def _retold(self, renderer: RetellingRenderer, text: str) -> tuple[int, ...]:
        """A conversation with the text in both answers. (What a model wrote may hold tokens of its own.)"""
        acted = Action("boats", "count", {"colour": "red"})
        turns = (
            Turn(Observation("count the red boats"), self._renderer.read(self._renderer.write(acted)).text, acted),
            Turn(Observation(f"there are 5 {text}"), "what are they?", None),
        )
        return renderer.retell(turns, observation=Observation(f"{text} are ships"), prompt="Be brief.")

    def conversation(self, prompt: str) -> tuple[int, list[str]]:
        """Rows that forked, and problems."""
        renderer, turns, history = self._renderer, list[Turn](), tuple[int, ...]()
        says_kept = not isinstance(renderer, ConversationRenderer) or renderer.keeps_prefix(prompt)
        forks, problems = 0, list[str]()
        observation = Observation("count the red boats")
        for number in range(_TURNS):
            arguments = (renderer, history, tuple(turns))
            ids = next_prompt(*arguments, observation=observation, prompt=prompt)
            if ids != next_prompt(*arguments, observation=observation, prompt=prompt):
                problems.append(f"the prompt of turn {number} was another when it was asked for again")
            if ids[: len(history)] != history:
                forks += 1
            problems += self._shown(f"the prompt of turn {number}", ids, observation.text)
            action = Action("boats", "count", {"colour": f"red{number}"}, "" if number else "Let us see.")
            written = renderer.write(action)
            history = ids + written
            turns.append(Turn(observation, renderer.read(written).text, action))
            observation = Observation(f"there are {number + 5} boats")
        if says_kept and forks:
            problems.append(
                f"it says that prefixes are kept, and {forks} of {_TURNS - 1} later prompts began otherwise"
            )
        return forks, problems

    def _same(self, what: str, ask: Callable[[], ValueT]) -> Generator[str, None, ValueT]:
        first, again = ask(), ask()
        if first != again:
            yield f"{what} gave other ids the second time"
        return first

    def _shown(self, what: str, ids: Sequence[int], words: str) -> Iterator[str]:
        text = self._renderer.read(ids).text
        if words not in text:
            yield f"{what} does not show {words!r}, only {text!r}"

    def _structure(self) -> frozenset[int]:
        """The ids that stand for special tokens: stop ids, and those that read as one of the special texts."""
        renderer = self._renderer
        seen = {
            *renderer.open(Observation("boats"), "boats"),
            *renderer.extend(Observation("boats")),
            *renderer.write(Action("user", "answer", {"text": "boats"})),
        }
        special = {token for token in seen if renderer.read((token,)).text.strip() in self._special_texts}
        return frozenset(special.union(renderer.stop_ids))


def _counted(ids: Sequence[int], structure: frozenset[int]) -> Counter[int]:
    return Counter(token for token in ids if token in structure)


def _difference(expected: Counter[int], found: Counter[int]) -> str:
    changed = sorted(token for token in expected | found if expected[token] != found[token])
    return ", ".join(f"id {token} stands {found[token]} times instead of {expected[token]}" for token in changed)

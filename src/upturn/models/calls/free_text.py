"""The reader of calls in the text of a model whose format is unknown: what an endpoint without tools answers.

In this order: the markers of a known format; ReAct (arXiv 2210.03629), ``Action: name`` with ``Action Input: …``
or ``Action: name[…]``; our grammar, ``target.operation key=value; key=value``, in the last lines that are calls, or
``name(key=value)``; JSON objects. What a model wrote after an invented ``Observation:`` is ignored. A thought
between ``<think>`` and ``</think>`` holds no call.
"""

import re
from collections.abc import Callable, Mapping, Sequence

from upturn.models.call import read_call
from upturn.models.calls.deepseek import read_deepseek
from upturn.models.calls.gemma import read_gemma
from upturn.models.calls.harmony import read_harmony
from upturn.models.calls.json_value import read_json, skip_blanks
from upturn.models.calls.names import ANY_NAME, FunctionNames
from upturn.models.calls.objects import arguments_of, call_of_object, read_hermes, read_mistral, read_object
from upturn.models.calls.pythonic import read_python
from upturn.models.calls.reading import Call, Reading, Refusal, RefusedError, Repair
from upturn.models.calls.tagged import read_glm, read_xml
from upturn.records import JsonValue, Tool

_MARKED: Sequence[tuple[str, Callable[[str], Reading]]] = (
    ("<function=", read_xml),
    ("<arg_key>", read_glm),
    ("<tool_call>", read_hermes),
    ("[TOOL_CALLS]", read_mistral),
    ("<|tool_call_start|>", read_python),
    ("<|tool_call>", read_gemma),
    ("<｜tool▁call▁begin｜>", read_deepseek),
    ("to=functions.", read_harmony),
)
"""A piece of each format and its reader, the most particular first."""
_FLAGS = re.MULTILINE | re.IGNORECASE
_ACTION = re.compile(r"^[ \t>*_#]*Action[ \t*_]*:[ \t*_]*(.*)$", _FLAGS)
_INPUT = re.compile(r"^[ \t>*_#]*Action[ _]?Input[ \t*_]*:[ \t*_]*", _FLAGS)
_INVENTED = re.compile(r"^[ \t>*_#]*Observation[ \t*_]*:", _FLAGS)
_THOUGHT = re.compile(r"^[ \t>*_#]*(?:Thought|Final Answer)[ \t*_]*:", _FLAGS)
_NAMED = re.compile(r"[`'\"]?([A-Za-z0-9_][\w.:/-]*)[`'\"]?\s*(.*)\Z", re.DOTALL | re.ASCII)
_PYTHON_LINE = re.compile(r"[A-Za-z_][\w.]*\(.*\)\Z", re.ASCII)
_FENCE = re.compile(r"```[a-zA-Z_]*[ \t]*\n?")
_NO_INPUT = frozenset({"", "none", "null", "n/a", "{}", "()", "[]"})
_THOUGHT_END = "</think>"
_ACTION_KEYS = frozenset({"action", "action_input"})


def read_free_text(text: str, tools: Sequence[Tool], names: FunctionNames) -> Reading | Refusal:
    """The calls of a text, or why it has none; ``names``: of ``tools``. Never raises.

    A name that almost is a tool's is replaced by it, any other is left as it was written.
    """
    start = text.rfind(_THOUGHT_END)
    start = start + len(_THOUGHT_END) if start >= 0 else 0
    try:
        if "<think>" in text[start:]:
            raise RefusedError("truncated", "the thought does not end")
        reading = _Reader(text[start:], tools, names).read()
        calls = tuple(_named(call, names)._replace(start=call.start + start) for call in reading.calls)
    except RefusedError as exc:
        return exc.refusal
    except RecursionError:
        return Refusal("bad_syntax", "a value is nested too deep")
    before = text[:start].removesuffix(_THOUGHT_END).strip().removeprefix("<think>").strip()
    return Reading("\n".join(filter(None, (before, reading.thought))), calls)


def read_native_call(name: str, arguments: str, names: FunctionNames) -> Call | Refusal:
    """A call whose name and arguments a server has separated already, or what is wrong with it. Never raises."""
    try:
        values, repairs = dict[str, JsonValue](), frozenset[Repair]()
        if arguments.strip():
            value, read = _fenced(arguments.strip())
            if "text_after" in read:
                raise RefusedError("bad_arguments", "something follows the object of the arguments")
            values, further = arguments_of(value)
            repairs = read | further
        return _named(Call(name, values, 0, repairs=repairs), names)
    except RefusedError as exc:
        return exc.refusal
    except RecursionError:
        return Refusal("bad_syntax", "a value is nested too deep")


def _named(call: Call, names: FunctionNames) -> Call:
    """The call by the name of the tool that is meant; raises RefusedError for what is no name."""
    if ANY_NAME.match(call.name) is None:
        raise RefusedError("bad_name", f"{call.name[:40]!r} is no function's name")
    if names.offers(call.name):
        return call
    near = names.near(call.name, is_whole=bool(names.read(call.name)[0]))
    if near is None:
        return call
    is_plain = near.replace(".", "__") == call.name  # the tool's name where dots are not allowed
    return call._replace(name=near, repairs=call.repairs | (frozenset() if is_plain else {"near_name"}))


class _Reader:
    """Reads one text."""

    def __init__(self, text: str, tools: Sequence[Tool], names: FunctionNames) -> None:
        self._text, self._names = text, names
        self._tools: Mapping[tuple[str, str], Tool] = {(tool.target, tool.operation): tool for tool in tools}

    def read(self) -> Reading:
        """Raises RefusedError."""
        text = self._text
        for piece, reader in _MARKED:
            if piece in text:
                return reader(text)
        actions = [action for action in _ACTION.finditer(text) if self._is_call(action)]
        if actions:
            return self._react(actions)
        return self._lines() or read_object(text)

    def _is_call(self, action: "re.Match[str]") -> bool:
        """Whether a call seems to follow ``Action:``, not prose."""
        head = action.group(1).strip("*`'\" \t")
        named = _NAMED.match(head)
        if named is None:
            return not head or head.startswith("{")
        name = named.group(1)
        has_input = _INPUT.match(self._text, skip_blanks(self._text, action.end())) is not None
        return has_input or "." in name or self._names.offers(name) or self._names.near(name) is not None

    def _react(self, actions: "list[re.Match[str]]") -> Reading:
        text = self._text
        invented = _INVENTED.search(text, actions[0].end())
        end = len(text) if invented is None else invented.start()
        actions = [action for action in actions if action.start() < end]
        calls = []
        for action, following in zip(actions, (*(later.start() for later in actions[1:]), end), strict=True):
            rest = text[action.end() : following]
            thought = _THOUGHT.search(rest)
            calls.append(self._react_call(action, rest if thought is None else rest[: thought.start()]))
        if invented is not None:
            calls[-1] = calls[-1]._replace(repairs=calls[-1].repairs | {"text_after"})
        return Reading(text[: actions[0].start()].strip(), tuple(calls))

    def _react_call(self, action: "re.Match[str]", rest: str) -> Call:
        head, marker = action.group(1).strip().strip("*"), _INPUT.search(rest)
        repairs = frozenset[Repair]({"react"})
        if marker is not None and not rest[: marker.start()].strip():
            name = head.strip("`'\" ").removesuffix("()")
            arguments, further = self._input(name, rest[marker.end() :].strip().strip("*"))
            return Call(name, arguments, action.start(), repairs=repairs | further)
        if not head or head.startswith(("{", "```")):
            return self._react_object(action.start(), f"{head}\n{rest}", repairs)
        named = _NAMED.match(head.strip("`"))
        if named is None:
            raise RefusedError("bad_name", f"{head[:40]!r} does not begin with a function's name")
        name, written = named.group(1), named.group(2).strip()
        if written.startswith("(") and not written.startswith("({") and _PYTHON_LINE.match(f"{name}{written}"):
            call = _python_call(f"{name}{written}")
            return call._replace(start=action.start(), repairs=call.repairs | repairs)
        if (written[:1], written[-1:]) in (("[", "]"), ("(", ")")):
            written = written[1:-1].strip()
        arguments, further = self._input(name, written)
        return Call(name, arguments, action.start(), repairs=repairs | further)

    def _react_object(self, start: int, text: str, repairs: frozenset[Repair]) -> Call:
        """A call as a JSON object after ``Action:``, also with the keys ``action`` and ``action_input``."""
        value, further = _fenced(text.strip())
        if isinstance(value, dict) and _ACTION_KEYS.issuperset(value) and isinstance(value.get("action"), str):
            sent = value.get("action_input", {})
            name = str(value["action"])
            if isinstance(sent, str):
                arguments, more = self._input(name, sent)
            else:
                arguments, more = arguments_of(sent)
            return Call(name, arguments, start, repairs=repairs | further | more)
        return call_of_object(value, start, repairs | further)

    def _input(self, name: str, text: str) -> tuple[dict[str, JsonValue], frozenset[Repair]]:
        """The arguments in a text: JSON, ``key=value; key=value``, or the value of the only parameter."""
        if text.lower() in _NO_INPUT:
            return {}, frozenset()
        if text.startswith(("{", "```")):
            value, repairs = _fenced(text)
            arguments, further = arguments_of(value)
            return arguments, repairs | further
        written = read_call(f"x.y {text}")
        if written is not None and "\n" not in text:
            return dict(written.parameters), frozenset()
        tool = self._tool(name)
        if tool is None or len(tool.properties) != 1:
            raise RefusedError(
                "bad_arguments", f"the input of {name[:40]!r} is neither a JSON object nor key=value; key=value"
            )
        return {next(iter(tool.properties)): text.strip("\"'")}, frozenset({"bare_value"})

    def _tool(self, name: str) -> Tool | None:
        near = None if self._names.offers(name) else self._names.near(name)
        return self._tools.get(self._names.read(name if near is None else near))

    def _lines(self) -> Reading | None:
        """The calls in the last lines that are calls; None = no line is one."""
        calls: list[Call] = []
        end = len(self._text)
        after = False
        for line in reversed(self._text.splitlines(keepends=True)):
            end -= len(line)
            bare = line.strip()
            if not bare or bare.startswith("```"):
                continue
            call = self._line(bare, end)
            if call is None and calls:
                break
            after = after or call is None
            if call is not None:
                calls.insert(0, call)
        if not calls:
            return None
        if after:
            calls[-1] = calls[-1]._replace(repairs=calls[-1].repairs | {"text_after"})
        return Reading(_FENCE.sub("", self._text[: calls[0].start]).strip(), tuple(calls))

    def _line(self, line: str, start: int) -> Call | None:
        text = line.strip("`")
        fenced = frozenset[Repair]({"fenced"} if text != line else ())
        action = read_call(text)
        if action is not None:
            return Call(f"{action.target}.{action.operation}", dict(action.parameters), start, repairs=fenced)
        if _PYTHON_LINE.match(text) and self._tool(text.partition("(")[0]) is not None:
            call = _python_call(text)
            return call._replace(start=start, repairs=call.repairs | fenced)
        name, _, rest = text.partition(" ")
        near = self._names.near(name, is_whole=True)
        written = None if near is None else read_call(f"x.y {rest}" if rest else "x.y")
        if near is None or written is None:
            return None
        return Call(near, dict(written.parameters), start, repairs=fenced | {"near_name"})


def _python_call(text: str) -> Call:
    """The call ``name(key=value)``; raises RefusedError."""
    call = read_python(f"<|tool_call_start|>[{text}]<|tool_call_end|>").calls[0]
    return call._replace(repairs=call.repairs | {"python_call"})


def _fenced(text: str) -> tuple[JsonValue, frozenset[Repair]]:
    """The JSON value that a text is, in a code block or not; raises RefusedError."""
    fence = _FENCE.match(text)
    part = read_json(text, fence.end() if fence else 0, is_call=True)
    after = skip_blanks(text, part.end)
    if fence is not None and text.startswith("```", after):
        after += 3
    repairs: set[Repair] = set(part.repairs) | ({"fenced"} if fence is not None else set())
    if text[after:].strip():
        repairs.add("text_after")
    return part.value, frozenset(repairs)

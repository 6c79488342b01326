"""Tool-call formats: how each model family writes calls, and the reader of each.

``hermes``: ``<tool_call>{"name": …, "arguments": {…}}</tool_call>`` (Hermes, Qwen2.5, Qwen3). ``xml``, with line
breaks between: ``<tool_call><function=name><parameter=key>value</parameter>…</function></tool_call>`` (Qwen3-Coder,
Qwen3.5 and later). ``glm``: ``<tool_call>name<arg_key>key</arg_key><arg_value>value</arg_value>…</tool_call>``
(GLM-4.5 and later). ``mistral``: ``[TOOL_CALLS] [{"name": …, "arguments": {…}, "id": …}]``, or
``[TOOL_CALLS]name[ARGS]{…}`` since tokenizer v11. ``gemma``: ``<|tool_call>call:name{key:value}<tool_call|>``
(Gemma 4). ``python``: ``<|tool_call_start|>[name(key=value)]<|tool_call_end|>`` (LFM2, LFM2.5). ``harmony``: a
message to ``functions.name`` (gpt-oss). ``deepseek``: ``<｜tool▁call▁begin｜>name<｜tool▁sep｜>{…}`` and its
closing marker (V3.1). ``llama``: the bare object ``{"name": …, "parameters": {…}}`` (Llama 3.1 and later).
``json``: our own, for templates without tool support, ``{"name": …, "arguments": {…}}``.

Text before the calls is the thought of the first. Not covered: calls as Python in Llama 4, and other markup.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from upturn.models.calls.deepseek import read_deepseek
from upturn.models.calls.gemma import read_gemma
from upturn.models.calls.harmony import final_text, read_harmony
from upturn.models.calls.names import ANY_NAME, PLAIN_NAME, PYTHON_NAME, parse_name
from upturn.models.calls.objects import read_hermes, read_mistral, read_object
from upturn.models.calls.pythonic import read_python
from upturn.models.calls.reading import Reading, Refusal, RefusedError, repaired
from upturn.models.calls.tagged import read_glm, read_xml
from upturn.records import Action


@dataclass(frozen=True, slots=True)
class CallFormat:
    """The call format of one model family."""

    name: str
    example: str
    """Shown in the prompt where the template does not explain the format."""
    markers: tuple[str, ...]
    """Texts around a call that a tokenizer may hold as single tokens."""
    reader: Callable[[str], Reading]
    """Raises RefusedError."""
    has_types: bool = True
    """False: values are written, and read back, as text."""
    names: re.Pattern[str] = ANY_NAME
    """Names of functions that the format can hold."""
    plain_text: Callable[[str], str] = str
    """The answer in a message without a call."""

    def read(self, text: str, *, is_strict: bool = False) -> Reading | Refusal:
        """The calls of a text, with their repairs, or why it has none. Never raises.

        ``is_strict``: a text that needs a repair is refused.
        """
        try:
            reading = self.reader(text)
            for call in reading.calls:
                if ANY_NAME.match(call.name) is None:
                    raise RefusedError("bad_name", f"{call.name[:40]!r} is no function's name")
        except RefusedError as exc:
            return exc.refusal
        except RecursionError:
            return Refusal("bad_syntax", "a value is nested too deep")
        repairs = sorted(set[str]().union(*(call.repairs for call in reading.calls)))
        if is_strict and repairs:
            return repaired(repairs)
        return reading

    def read_action(self, text: str) -> Action | None:
        """The one call of a text that needs no repair, as an action; None = there is none. Never raises."""
        reading = self.read(text, is_strict=True)
        if isinstance(reading, Refusal) or len(reading.calls) > 1:
            return None
        call = reading.calls[0]
        target, operation = parse_name(call.name)
        thought = "\n".join(filter(None, (reading.thought, call.thought)))
        return Action(target, operation, call.arguments, thought)


JSON = CallFormat("json", '{"name": <function-name>, "arguments": <args-json-object>}', (), read_object)
"""For templates without tool support."""

_TOOL_CALL = ("<tool_call>", "</tool_call>")

CALL_FORMATS: Mapping[str, CallFormat] = {
    call_format.name: call_format
    for call_format in (
        CallFormat(
            "hermes",
            '<tool_call>\n{"name": <function-name>, "arguments": <args-json-object>}\n</tool_call>',
            _TOOL_CALL,
            read_hermes,
        ),
        CallFormat(
            "xml",
            "<tool_call>\n<function=function-name>\n<parameter=name>\nvalue\n</parameter>\n</function>\n</tool_call>",
            _TOOL_CALL,
            read_xml,
            has_types=False,
        ),
        CallFormat(
            "glm",
            "<tool_call>function-name\n<arg_key>name</arg_key>\n<arg_value>value</arg_value>\n</tool_call>",
            (*_TOOL_CALL, "<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>"),
            read_glm,
            has_types=False,
        ),
        CallFormat(
            "mistral",
            '[TOOL_CALLS] [{"name": <function-name>, "arguments": <args-json-object>}]',
            ("[TOOL_CALLS]", "[CALL_ID]", "[ARGS]"),
            read_mistral,
        ),
        CallFormat(
            "gemma",
            '<|tool_call>call:function-name{name:<|"|>value<|"|>}<tool_call|>',
            ("<|tool_call>", "<tool_call|>", '<|"|>', "<|channel>", "<channel|>"),
            read_gemma,
        ),
        CallFormat(
            "python",
            "<|tool_call_start|>[function-name(name='value')]<|tool_call_end|>",
            ("<|tool_call_start|>", "<|tool_call_end|>"),
            read_python,
            names=PYTHON_NAME,
        ),
        CallFormat(
            "harmony",
            "<|channel|>commentary to=functions.function-name <|constrain|>json<|message|><args-json-object>",
            ("<|channel|>", "<|constrain|>", "<|message|>", "<|start|>", "<|end|>"),
            read_harmony,
            names=PLAIN_NAME,
            plain_text=final_text,
        ),
        CallFormat(
            "deepseek",
            "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function-name<｜tool▁sep｜><args-json-object>"
            "<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
            (
                "<｜tool▁calls▁begin｜>",
                "<｜tool▁calls▁end｜>",
                "<｜tool▁call▁begin｜>",
                "<｜tool▁call▁end｜>",
                "<｜tool▁sep｜>",
            ),
            read_deepseek,
        ),
        CallFormat(
            "llama",
            '{"name": <function-name>, "parameters": <args-json-object>}',
            ("<|python_tag|>",),
            read_object,
        ),
        JSON,
    )
}
"""By name, in the order in which they are tried on a template's output."""

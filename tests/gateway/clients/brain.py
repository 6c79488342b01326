"""What the scripted vendor answers, in no wire form: tool calls where they are asked for, else text or JSON."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

CITIES = ("Oslo", "Rome")
COMMANDS = (
    ("printf 'one\\n' > one.txt", "printf 'two\\n' > two.txt"),
    ("echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT && cat one.txt two.txt",),
)
"""What is run by a model with a tool named bash, answer by answer; the first answer has parallel calls."""
CODE = """Thought: I print the answer.
<code>
final_answer(weather("Oslo") + " / " + weather("Rome"))
</code>"""
"""The answer to smolagents' CodeAgent."""
THOUGHT = "The question is short."


@dataclass
class Question:
    """A request, as far as the script looks at it."""

    system: str = ""
    text: str = ""
    """Of the last message of the user."""
    users: int = 0
    tools: Mapping[str, Any] = field(default_factory=dict)
    """Schema of the arguments by name."""
    must_call: bool = False
    results: Sequence[str] = ()
    """Of the calls since the last message of the user, in the order of the calls."""
    answers: int = 0
    """Answers since the last message of the user."""
    image_bytes: int = 0
    schema: Any = None
    """JSON Schema of the answer; None = text."""


@dataclass
class Reply:
    """An answer."""

    text: str = ""
    calls: Sequence[tuple[str, str]] = ()
    """Names and arguments as JSON."""
    input_tokens: int = 100
    cached_tokens: int = 64
    output_tokens: int = 20
    thought_tokens: int = 5


def reply_to(question: Question) -> Reply:
    """The scripted answer."""
    if question.tools:
        return _with_tools(question)
    if question.schema is not None:
        return Reply(json.dumps(filled(question.schema, question.schema)))
    if "<code>" in question.system and "final_answer" in question.system:
        return Reply(CODE)
    return Reply(_text(question))


def _with_tools(question: Question) -> Reply:
    if "bash" in question.tools:
        commands = COMMANDS[min(question.answers, len(COMMANDS) - 1)]
        return Reply("I run this.", [("bash", json.dumps({"command": command})) for command in commands])
    cities = [city for city in CITIES if city in question.text]
    is_new = not question.results and not question.text.startswith("Observation")  # as smolagents shows results
    if cities and "weather" in question.tools and is_new:
        return Reply("Let me see.", [("weather", json.dumps({"city": city})) for city in cities])
    last = next((name for name in question.tools if name.startswith("final")), None)
    if last is not None or question.must_call:
        name = last or next(iter(question.tools))
        schema = question.tools[name]
        return Reply("", [(name, json.dumps(filled(schema, schema, _text(question))))])
    if question.schema is not None:
        return Reply(json.dumps(filled(question.schema, question.schema)))
    return Reply(_text(question))


def _text(question: Question) -> str:
    if question.image_bytes:
        return f"An image of {question.image_bytes} bytes."
    if question.results:
        return " / ".join(question.results)
    if question.text.startswith("Observation"):
        return " / ".join(line for line in question.text.splitlines() if line.startswith("rain"))
    told = f" (told: {question.system})" if question.system else ""
    return f"Message {question.users}: {question.text}{told}"


def filled(schema: Any, root: Any, text: str = "Oslo") -> Any:
    """A value of a JSON Schema."""
    if "$ref" in schema:
        *_, section, name = schema["$ref"].split("/")
        return filled(root[section][name], root, text)
    if "enum" in schema or "const" in schema:
        return schema["const"] if "const" in schema else schema["enum"][0]
    for key in ("anyOf", "oneOf"):
        if key in schema:
            return filled(schema[key][0], root, text)
    match schema.get("type"):
        case "object":
            return {name: filled(inner, root, text) for name, inner in schema.get("properties", {}).items()}
        case "array":
            return [filled(schema["items"], root, text)]
        case "integer":
            return 7
        case "number":
            return 7.5
        case "boolean":
            return True
    return text

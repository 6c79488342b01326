"""What OpenAI's two dialects, chat completions and Responses, have in common: content, images, choices, counts."""

from collections.abc import Callable, Sequence
from typing import Literal, Protocol, TypeVar

from upturn.dialects.conversation import Image, OutputFormat, Text, TokenUsage, ToolChoice
from upturn.dialects.dialect import RequestError, Wire
from upturn.records import JsonValue


class _Typed(Protocol):
    type: str


PartT = TypeVar("PartT", bound=_Typed)


class CachedTokens(Wire):
    """Of a prompt's tokens."""

    cached_tokens: int | None = None
    cache_write_tokens: int | None = None
    """OpenRouter's, for models whose cache writes have a price; OpenAI has none."""


class ReasoningTokens(Wire):
    """Of an answer's tokens."""

    reasoning_tokens: int | None = None


def token_usage(
    prompt: int, answer: int, of_prompt: CachedTokens | None, of_answer: ReasoningTokens | None
) -> TokenUsage:
    """The counts as a record."""
    cached = (of_prompt and of_prompt.cached_tokens) or 0
    written = (of_prompt and of_prompt.cache_write_tokens) or 0
    thoughts = (of_answer and of_answer.reasoning_tokens) or 0
    return TokenUsage(prompt, answer, cached, thoughts, cache_write=written)


def read_content(
    content: str | Sequence[PartT] | None, field: str, read: Callable[[PartT], Text | Image | None]
) -> list[Text | Image]:
    """The parts of a message's content; ``read``: None for a part of another type, which is refused."""
    if content is None or isinstance(content, str):
        return [Text(content)] if content else []
    parts: list[Text | Image] = []
    for index, part in enumerate(content):
        known = read(part)
        if known is None:
            raise RequestError(
                f"{field}.{index} is of type {part.type!r}; text and images by value or URL are supported",
                code="unsupported",
                field=f"{field}.{index}",
            )
        parts.append(known)
    return parts


def plain_text(parts: Sequence[Text | Image]) -> str | None:
    """The text of the parts; None = there is an image."""
    if all(isinstance(part, Text) for part in parts):
        return "".join(part.text for part in parts if isinstance(part, Text))
    return None


def read_image(url: str) -> Image:
    """From an address or a ``data:`` URL."""
    if not url.startswith("data:"):
        return Image(url=url)
    head, _, data = url.removeprefix("data:").partition(",")
    return Image(head.removesuffix(";base64"), data)


def write_image(image: Image) -> str:
    """The address, or a ``data:`` URL."""
    return image.url or f"data:{image.media_type or 'image/png'};base64,{image.data}"


def read_choice(
    choice: Literal["none", "auto", "required"] | None, name: str | None, *, parallel: bool | None
) -> ToolChoice:
    """``name``: of the one tool that must be called; None = ``choice`` holds."""
    is_parallel = parallel is not False
    return ToolChoice(choice or "auto", "", is_parallel) if name is None else ToolChoice("named", name, is_parallel)


def read_schema(name: str, schema: dict[str, JsonValue] | None, field: str) -> OutputFormat:
    """The format of an answer with a schema; raises RequestError where there is none."""
    if schema is None:
        raise RequestError(f"{field} is missing: json_schema needs a schema", field=field)
    return OutputFormat("schema", name, schema)

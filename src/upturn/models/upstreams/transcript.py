"""The answer that the events of a stream add up to."""

from dataclasses import dataclass, field

from upturn.dialects import (
    CallDelta,
    FinishReason,
    ModelAnswer,
    Part,
    Reasoning,
    ReasoningDelta,
    StreamEnd,
    StreamEvent,
    StreamFailure,
    StreamStart,
    Text,
    TextDelta,
    TokenUsage,
    ToolCall,
)


@dataclass(slots=True)
class _Block:
    """One part of the answer while it grows."""

    kind: str
    """``text``, ``thought`` or ``call 0``, ``call 1``, …"""
    texts: list[str] = field(default_factory=list)
    signature: str = ""
    is_redacted: bool = False
    id: str = ""
    name: str = ""

    def part(self) -> Part:
        text = "".join(self.texts)
        if self.kind == "text":
            return Text(text)
        if self.kind == "thought":
            return Reasoning(text, self.signature, self.is_redacted)
        return ToolCall(self.id, self.name, text)


class Transcript:
    """Collects the events of one stream."""

    def __init__(self) -> None:
        self.id = ""
        """The upstream's id of the answer; empty = the stream has not begun."""
        self.usage: TokenUsage | None = None
        self.failure = ""
        """Empty = the stream has not failed."""
        self.is_over = False
        self.model = ""
        self._finish: FinishReason = "stop"
        self._blocks: list[_Block] = []

    @property
    def has_parts(self) -> bool:
        """Whether a part of the answer has come."""
        return bool(self._blocks)

    @property
    def has_begun(self) -> bool:
        """Whether a part of the answer has come, or its end."""
        return self.is_over or self.has_parts

    def add(self, event: StreamEvent) -> None:
        """Adds an event."""
        match event:
            case StreamStart():
                self.id, self.model = event.id, event.model
                self.usage = event.usage if event.usage != TokenUsage() else self.usage
            case TextDelta():
                self._block("text").texts.append(event.text)
            case ReasoningDelta():
                block = self._block("thought")
                block.texts.append(event.text)
                block.signature += event.signature
                block.is_redacted = block.is_redacted or event.is_redacted
            case CallDelta():
                block = self._block(f"call {event.index}")
                block.id, block.name = event.id or block.id, event.name or block.name
                block.texts.append(event.arguments)
            case StreamEnd():
                self._finish, self.is_over = event.finish, True
                self.usage = event.usage or self.usage
            case StreamFailure():
                self.failure, self.is_over = event.message, True

    def answer(self) -> ModelAnswer | None:
        """What was answered so far; None = nothing was."""
        if not self.id and not self._blocks:
            return None
        parts = tuple(block.part() for block in self._blocks)
        return ModelAnswer(self.id, self.model, parts, self._finish, self.usage or TokenUsage())

    def _block(self, kind: str) -> _Block:
        """The block that events of this kind go to: the last one, or the call's with that index."""
        if kind.startswith("call "):
            known = next((block for block in self._blocks if block.kind == kind), None)
        else:
            known = self._blocks[-1] if self._blocks and self._blocks[-1].kind == kind else None
            if known is not None and known.signature and kind == "thought":
                known = None  # a signature ends a thought
        if known is None:
            known = _Block(kind)
            self._blocks.append(known)
        return known

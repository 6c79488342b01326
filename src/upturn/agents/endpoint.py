"""An agent with a model behind an endpoint. Its trajectories are recorded, but it is not trained."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from upturn.agents.agent import ModelSession, Reply, model_usage
from upturn.agents.call_form import CallForm, NativeForm, TextForm
from upturn.agents.context import Budget, ContextWindow, check_room
from upturn.agents.recorder import LimitReachedError
from upturn.dialects import ModelRequest, Sampling
from upturn.errors import ConfigError
from upturn.models import ChatEndpoint, ToolsRefusedError
from upturn.records import Observation, Tool, Turn

_BYTES_A_TOKEN = 3
"""English prose has about four bytes a token, tables and code about three; characters of other scripts have two or
three bytes and rarely take more than a token."""
_MESSAGE_TOKENS = 6
"""Tokens around a message: four to six in the chat templates of open models."""
ToolUse = Literal["auto", "native", "text"]


@dataclass(frozen=True, slots=True)
class OfferedTools:
    """The environment's tools and how an endpoint agent offers them."""

    tools: Sequence[Tool] = ()
    """Empty = the environment describes none."""
    use: ToolUse = "auto"
    """``native``: as tool definitions. ``text``: in the prompt, with actions as text. ``auto``: as definitions, and
    in the prompt once the server refuses them; in the prompt where there are no tools."""
    note: Callable[[str], None] = lambda _: None
    """Gets a sentence when ``auto`` goes over to text."""


class EndpointAgent:
    """Sends the conversation, in full or within a budget, with the tools; answers with the calls of the model."""

    def __init__(
        self,
        endpoint: ChatEndpoint,
        *,
        prompt: str,
        temperature: float,
        max_tokens: int,
        context: Budget | None = None,
        offered: OfferedTools = OfferedTools(),
    ) -> None:
        """``context``: None = the full conversation.

        Raises ConfigError for a budget that leaves no room, and for native calls without tools.
        """
        if offered.use == "native" and not offered.tools:
            raise ConfigError(["tools = 'native' has no effect: the environment describes no tools; leave it out"])
        self._endpoint, self._prompt, self._offered, self._context = endpoint, prompt, offered, context
        self._temperature = temperature
        self._max_tokens = max_tokens
        self._has_called = False
        """Whether the server has answered a request with tools."""
        self._adopt(is_native=bool(offered.tools) and offered.use != "text")

    def _adopt(self, *, is_native: bool) -> None:
        """From now on, conversations have this form."""
        endpoint, tools = self._endpoint, self._offered.tools
        form: CallForm = TextForm(self._prompt, tools)
        if is_native:
            form = NativeForm(self._prompt, tools, dialect=endpoint.dialect, model=endpoint.model)
        window = None
        if self._context is not None:
            window = ContextWindow(self._context, estimated_tokens, 2 * _MESSAGE_TOKENS, self._max_tokens)
            check_room(window, _opening(form, ""))
        self._form, self._window = form, window

    def trouble(self, seconds: float) -> str:
        """A sentence if the endpoint has not answered for so many seconds or failed; otherwise empty."""
        return self._endpoint.trouble(seconds)

    async def act(self, turns: Sequence[Turn], observation: Observation, model: ModelSession) -> Reply:
        """One call, or a further action of the latest answer.

        Raises LimitReachedError where not even the latest turn fits into the budget.
        """
        pending = model.pending()
        if pending is not None:
            return pending
        try:
            replies = await self._ask(turns, observation)
        except ToolsRefusedError as exc:
            if self._offered.use == "native" or self._has_called:
                raise
            if self._form.definitions:
                self._offered.note(f"the model gets its tools as text (agents.tools): {exc}")
                self._adopt(is_native=False)
            replies = await self._ask(turns, observation)
        model.defer(replies[1:])
        return replies[0]

    async def _ask(self, turns: Sequence[Turn], observation: Observation) -> list[Reply]:
        form = self._form
        turns, observation = self._within_budget(turns, observation)
        sampling = Sampling(max_tokens=self._max_tokens, temperature=self._temperature)
        request = ModelRequest("", form.messages(turns, observation), form.definitions, sampling=sampling)
        answer = await self._endpoint.answer(request)
        self._has_called = self._has_called or bool(form.definitions)
        first, *later = form.replies(answer)
        return [first._replace(usage=model_usage(answer.usage, request, answer.parts)), *later]

    def _within_budget(self, turns: Sequence[Turn], observation: Observation) -> tuple[Sequence[Turn], Observation]:
        if self._window is None:
            return turns, observation
        if turns:
            opening = _opening(self._form, turns[0].observation.text)
            view = self._window.replay(turns, observation, opening=opening)
            return view.turns, view.observation
        if self._window.is_over(_opening(self._form, observation.text)):
            raise LimitReachedError
        return turns, observation


def _opening(form: CallForm, instruction: str) -> int:
    """Tokens of the system message, the tools and the instruction."""
    tools = "".join(
        json.dumps([tool.name, tool.description, dict(tool.parameters)], ensure_ascii=False)
        for tool in form.definitions
    )
    return sum(map(estimated_tokens, (form.system, tools, instruction))) + 2 * _MESSAGE_TOKENS


def estimated_tokens(text: str) -> int:
    """An upper estimate of a text's tokens, for most texts: an endpoint's tokenizer is unknown."""
    return -(-len(text.encode(errors="surrogatepass")) // _BYTES_A_TOKEN)

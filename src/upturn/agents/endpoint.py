"""An agent with a model behind a chat endpoint. Its trajectories are recorded, but it is not trained."""

from collections.abc import Sequence

from upturn.agents.agent import ModelSession, Reply
from upturn.agents.context import Budget, ContextWindow, check_room, observation_text
from upturn.agents.recorder import LimitReachedError
from upturn.environments import read_action
from upturn.models import ChatEndpoint, Message, read_call
from upturn.records import Action, Observation, Turn, Usage

GRAMMAR = (
    "You act by writing one action as the last line of your answer: target.operation key=value; key=value\n"
    "For example: mail.move id=m27; folder=archive\n"
    "An action without parameters is just target.operation. Escape ; = and line breaks (\\n) in values with a "
    "backslash; join lists with commas. You then see what happened, and act again until you are done."
)
"""Always part of the system message; the agent version's prompt lists the actions."""
_BYTES_A_TOKEN = 3
"""English prose has about four bytes a token, tables and code about three; characters of other scripts have two or
three bytes and rarely take more than a token."""
_MESSAGE_TOKENS = 6
"""Tokens around a message: four to six in the chat templates of open models."""


class EndpointAgent:
    """Sends the conversation, in full or within a budget, and takes the last line that parses as an action."""

    def __init__(
        self,
        endpoint: ChatEndpoint,
        *,
        prompt: str,
        temperature: float,
        max_tokens: int,
        context: Budget | None = None,
    ) -> None:
        """``context``: None = the full conversation. Raises ConfigError for a budget that leaves no room."""
        self._endpoint = endpoint
        self._system = f"{prompt}\n\n{GRAMMAR}" if prompt else GRAMMAR
        self._temperature = temperature
        self._max_tokens = max_tokens
        self._window = None
        if context is not None:
            self._window = ContextWindow(context, estimated_tokens, 2 * _MESSAGE_TOKENS, max_tokens)
            check_room(self._window, self._opening(""))

    def trouble(self, seconds: float) -> str:
        """A sentence if the endpoint has not answered for so many seconds or failed; otherwise empty."""
        return self._endpoint.trouble(seconds)

    async def act(self, turns: Sequence[Turn], observation: Observation, model: ModelSession) -> Reply:  # noqa: ARG002
        """One call. Raises LimitReachedError where not even the latest turn fits into the budget."""
        turns, observation = self._within_budget(turns, observation)
        messages = [Message("system", self._system)]
        for turn in turns:
            messages.append(Message("user", observation_text(turn.observation)))
            messages.append(Message("assistant", turn.text))
        messages.append(Message("user", observation_text(observation)))
        completion = await self._endpoint.complete(
            messages, temperature=self._temperature, max_tokens=self._max_tokens
        )
        usage = Usage(completion.prompt_tokens, completion.written_tokens)
        return Reply(completion.text, _last_action(completion.text), usage)

    def _within_budget(self, turns: Sequence[Turn], observation: Observation) -> tuple[Sequence[Turn], Observation]:
        if self._window is None:
            return turns, observation
        if turns:
            view = self._window.replay(turns, observation, opening=self._opening(turns[0].observation.text))
            return view.turns, view.observation
        if self._window.is_over(self._opening(observation.text)):
            raise LimitReachedError
        return turns, observation

    def _opening(self, instruction: str) -> int:
        return estimated_tokens(self._system) + estimated_tokens(instruction) + 2 * _MESSAGE_TOKENS


def estimated_tokens(text: str) -> int:
    """An upper estimate of a text's tokens, for most texts: an endpoint's tokenizer is unknown."""
    return -(-len(text.encode(errors="surrogatepass")) // _BYTES_A_TOKEN)


def _last_action(text: str) -> Action | None:
    for line in reversed(text.splitlines()):
        action = read_call(line.strip().strip("`"))
        if action is not None:
            return action
    return read_action(text)

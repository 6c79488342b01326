"""A foreign model behind a chat endpoint as an agent. Routed, judged and recorded; not trained."""

from collections.abc import Iterator, Sequence

from upturn.agents.agent import ModelSession, Reply
from upturn.models import read_call
from upturn.models.endpoint import ChatEndpoint, Message
from upturn.records import Action, Observation, Turn, Usage

GRAMMAR = (
    "You act by writing one action as the last line of your answer: target.operation key=value; key=value\n"
    "For example: mail.move id=m27; folder=archive\n"
    "An action without parameters is just target.operation. Escape ; = and line breaks (\\n) in values with a "
    "backslash; join lists with commas. You then see what happened, and act again until you are done."
)
"""Always part of the system message; which actions there are stands in the agent version's prompt."""


class EndpointAgent:
    """Sends the whole conversation each turn, and takes the last line that reads as an action."""

    def __init__(self, endpoint: ChatEndpoint, *, prompt: str, temperature: float, max_tokens: int) -> None:
        self._endpoint = endpoint
        self._system = f"{prompt}\n\n{GRAMMAR}" if prompt else GRAMMAR
        self._temperature = temperature
        self._max_tokens = max_tokens

    async def act(self, turns: Sequence[Turn], observation: Observation, model: ModelSession) -> Reply:  # noqa: ARG002
        """One call of the endpoint."""
        messages = list(self._messages(turns, observation))
        written = await self._endpoint.complete(
            messages, temperature=self._temperature, max_tokens=self._max_tokens
        )
        return Reply(written.text, _last_action(written.text), Usage(written.prompt_tokens, written.written_tokens))

    def _messages(self, turns: Sequence[Turn], observation: Observation) -> Iterator[Message]:
        yield Message("system", self._system)
        for turn in turns:
            yield Message("user", _shown(turn.observation))
            yield Message("assistant", turn.text)
        yield Message("user", _shown(observation))


def _shown(observation: Observation) -> str:
    return f"error {observation.code}: {observation.text}" if observation.is_error else observation.text


def _last_action(text: str) -> Action | None:
    for line in reversed(text.splitlines()):
        action = read_call(line.strip().strip("`"))
        if action is not None:
            return action
    return None

"""A toy task that the shipped model half knows, and a program that asks its model once. Named in configurations."""

from collections.abc import Mapping
from random import Random

import aiohttp

from upturn.agents import Attempt
from upturn.environments import one_step
from upturn.records import Action

_WORDS = ("red", "blue", "green", "black")


def make(rng: Random) -> tuple[str, dict[str, str]]:
    """A word to say."""
    word = rng.choice(_WORDS)
    return f"say {word}", {"word": word}


def check(action: Action, expected: Mapping[str, str]) -> bool:
    """Whether the word is in the answer's text."""
    return expected["word"] in str(action.parameters.get("text", ""))


kit = one_step("say", make, check)


async def act(attempt: Attempt) -> str:
    """The model's answer to the task."""
    body = {"model": attempt.model, "messages": [{"role": "user", "content": attempt.task}]}
    headers = {"authorization": f"Bearer {attempt.api_key}"}
    async with (
        aiohttp.ClientSession(headers=headers) as client,
        client.post(f"{attempt.base_url}/chat/completions", json=body) as response,
    ):
        return str((await response.json())["choices"][0]["message"]["content"])

"""A Gymnasium environment of texts, played by a plain loop: ask the model for a line, step, show it what came back.

    upturn train grpo --config gym_loop.toml        (in this folder; pip install gymnasium)

The environment is the program's own: Upturn only says which episode to play, and reads the reward that the program
answers with. Here it is Upturn's office behind Gymnasium's interface; any other environment whose observations and
actions are texts takes its place in `make`.
"""

import json
import urllib.request
from random import Random
from typing import Any

import gymnasium

from upturn.environments import program_kit
from upturn.environments.adapters.gymnasium import register

FAMILIES = ("channel_add", "table_filter", "channel_post")
STEPS = 10
"""Of an episode."""


def ask(base_url: str, key: str, model: str, messages: list[dict[str, str]]) -> str:
    """The model's answer."""
    headers = {"content-type": "application/json", "authorization": f"Bearer {key}"}
    body = json.dumps({"model": model, "messages": messages}).encode()
    request = urllib.request.Request(f"{base_url}/chat/completions", body, headers)
    with urllib.request.urlopen(request, timeout=600) as response:
        text: str = json.load(response)["choices"][0]["message"]["content"]
    return text


def make(family: str, split: str) -> Any:
    """The environment."""
    return gymnasium.make(register("office"), family=family, split=split, max_turns=STEPS)


def act(attempt: Any) -> str:
    """Plays the episode that the task names; its reward is the answer. `attempt`: Upturn's `Attempt`."""
    family, split, seed = attempt.task.split()
    env = make(family, split)
    observation, _ = env.reset(seed=int(seed))
    messages = [{"role": "user", "content": observation}]
    is_over, total = False, 0.0
    while not is_over:
        action = ask(attempt.base_url, attempt.api_key, attempt.model, messages)
        observation, reward, is_terminated, is_truncated, info = env.step(action)
        if info["code"] != "ok":
            observation = f"error {info['code']}: {observation}"
        messages += [{"role": "assistant", "content": action}, {"role": "user", "content": observation}]
        is_over, total = is_terminated or is_truncated, total + float(reward)
    return str(total)


def draw(rng: Random, split: str) -> tuple[str, dict[str, Any]]:
    """An episode, and nothing that only a verifier knows."""
    return f"{rng.choice(FAMILIES)} {split} {rng.randrange(2**31)}", {}


def evaluate(answer: str) -> dict[str, float]:
    """The episode's reward: the office pays for success only, and less for a longer way."""
    reward = float(answer or 0)
    return {"reward": reward, "success": reward > 0}


kit = program_kit("office_episodes", draw, evaluate)

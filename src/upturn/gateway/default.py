"""The configuration without a file: the shipped model behind a route of two agents."""

from upturn.config import Config
from upturn.loop.trainers import parse_full_config


def default_config() -> Config:
    """Returns the configuration: ``nano`` sampled and ``nano-greedy``, for calls from this machine."""
    return parse_full_config(
        {
            "agents": [
                {"name": "nano", "kind": "local_model", "model": "nano"},
                {"name": "nano-greedy", "kind": "local_model", "model": "nano", "temperature": 0.0},
            ],
            "loop": {"train": []},
        }
    )

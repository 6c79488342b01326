"""API keys of servers: from environment variables, or from files that hold nothing else.

A key is read at the start, and again at each reload. It stands in no configuration, error or record; messages name
the setting and the path.
"""

import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from upturn.config.config import Config
from upturn.config.settings import Keyed
from upturn.errors import ConfigError

_LARGEST_FILE = 16_384
"""Bytes; longer headers are refused by most servers."""


@dataclass(frozen=True, slots=True)
class ApiKeys:
    """The keys that a configuration names."""

    by_variable: Mapping[str, str] = field(default_factory=dict, repr=False)
    by_file: Mapping[str, str] = field(default_factory=dict, repr=False)
    """By the path as the setting has it."""
    warnings: tuple[str, ...] = ()
    """Files that other users of the machine can read."""

    def of(self, settings: Keyed) -> str:
        """Returns the key that the settings name; empty = they name none, and none is sent."""
        return self.by_variable.get(settings.api_key_env, "") or self.by_file.get(settings.api_key_file, "")


class ReadKeys(NamedTuple):
    """Keys, and why others are missing."""

    keys: ApiKeys
    problems: list[str]


def keyed_settings(config: Config) -> Iterator[tuple[str, Keyed]]:
    """Yields (name, settings) for all settings that may name a key."""
    for index, agent in enumerate(config.agents):
        yield f"agents[{index}]", agent
    yield "rollouts", config.rollouts
    if config.gateway.embeddings is not None:
        yield "gateway.embeddings", config.gateway.embeddings
    if config.pool.embeddings is not None:
        yield "pool.embeddings", config.pool.embeddings
    for section, settings in config.algorithms.items():
        yield from ((f"{section}.{name}", keyed) for name, keyed in settings.keyed())


def api_keys(config: Config, environ: Mapping[str, str], path: Path | None) -> ApiKeys:
    """Returns all keys; see ``read_api_keys``. Raises ConfigError with every problem."""
    keys, problems = read_api_keys(config, environ, path)
    if problems:
        raise ConfigError(problems)
    return keys


def read_api_keys(config: Config, environ: Mapping[str, str], path: Path | None) -> ReadKeys:
    """Returns the keys that can be read, and the problems of others.

    ``path``: the configuration's file, whose folder relative paths of ``api_key_file`` start from; None = there is
    no file, and they start from the current folder.
    """
    by_variable, by_file, warnings, problems = dict[str, str](), dict[str, str](), list[str](), list[str]()
    folder = Path() if path is None else path.resolve().parent
    names = {f"agents[{index}]": f" of agent {agent.name!r}" for index, agent in enumerate(config.agents)}
    for name, settings in keyed_settings(config):
        if variable := settings.api_key_env:
            by_variable[variable] = environ.get(variable, "")
            if not by_variable[variable]:
                problems.append(
                    f"{name}.api_key_env = {variable!r}: that environment variable is not set; export it"
                )
        if settings.api_key_file:
            file = folder / settings.api_key_file
            subject = f"{name}.api_key_file{names.get(name, '')}: {str(file)!r}"
            try:
                by_file[settings.api_key_file] = _read_key(file)
                if file.stat().st_mode & stat.S_IROTH:
                    warnings.append(f"{subject} can be read by every user of this machine; run chmod o-r on it")
            except OSError as exc:
                problems.append(f"{subject} cannot be read: {exc.strerror}; create it with the key as its content")
            except ValueError as exc:
                problems.append(f"{subject} {exc}")
    return ReadKeys(ApiKeys(by_variable, by_file, tuple(dict.fromkeys(warnings))), problems)


def _read_key(file: Path) -> str:
    """Returns the content without white space around it; raises OSError, or ValueError that shows nothing of it."""
    if file.exists() and not file.is_file():
        raise ValueError("is no regular file; name a file with the key as its content")
    with file.open("rb") as opened:
        content = opened.read(_LARGEST_FILE + 1)
    if len(content) > _LARGEST_FILE:
        raise ValueError(f"has more than {_LARGEST_FILE} bytes; its content must be the key alone")
    key = content.strip()
    if not key:
        raise ValueError("is empty; write the key into it")
    if not all(33 <= byte <= 126 for byte in key):  # what the value of a header may hold, without white space
        raise ValueError("is not one line of visible ASCII characters; its content must be the key alone")
    return key.decode("ascii")

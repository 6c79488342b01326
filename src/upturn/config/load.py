"""Reading a configuration: all problems are found and reported together, before any work.

Order of checks: the file can be read; it is TOML; every setting by itself; settings against each other; what they
name (files, environment variables) is there. Only the first two stop the rest.
"""

import json
import tomllib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import fields
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from upturn.config.config import CORE, OPTIONAL, Config
from upturn.config.contradiction import contradictions
from upturn.config.learning import OptimiserSettings
from upturn.config.section import HUB_NAME, AgentConfig
from upturn.config.settings import (
    Raw,
    Settings,
    described_error,
    made_from,
    nested_settings,
    place_name,
    validated,
    with_defaults,
)
from upturn.errors import ConfigError

SHIPPED_MODELS = ("nano",)
"""Those that come with Upturn."""


def load_config(path: Path, environ: Mapping[str, str], sections: Mapping[str, type[Settings]] = {}) -> Config:
    """The configuration in the TOML file ``path``; raises ConfigError with every problem.

    ``environ`` are the environment variables that ``api_key_env`` settings may name. ``sections``: those of
    algorithms, by name.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as exc:
        raise ConfigError([f"cannot read {str(path)!r}: {exc.strerror}; name a file with --config"]) from exc
    except UnicodeDecodeError as exc:
        raise ConfigError([f"{str(path)!r} is not UTF-8 text: {exc}"]) from exc
    try:
        raw = tomllib.loads(text)
    except (ValueError, RecursionError) as exc:  # endless numbers and nesting too, not only TOMLDecodeError
        raise ConfigError([f"{str(path)!r} is not TOML: {exc}"]) from exc
    config, problems = _parse(raw, sections)
    if config is not None:
        problems += _surroundings(config, environ)
    if problems or config is None:
        raise ConfigError(problems)
    return config


def keys_in(config: Config, environ: Mapping[str, str]) -> dict[str, str]:
    """The values of the environment variables that ``api_key_env`` settings name, by variable; all must be set."""
    return {variable: environ[variable] for _, variable in _key_variables(config)}


def parse_config(raw: Raw, sections: Mapping[str, type[Settings]] = {}) -> Config:
    """The configuration from nested settings as TOML or JSON gives them; raises ConfigError with every problem.

    ``sections``: those of algorithms, by name.
    """
    config, problems = _parse(raw, sections)
    if problems or config is None:
        raise ConfigError(problems)
    return config


def _parse(raw: Raw, sections: Mapping[str, type[Settings]]) -> tuple[Config | None, list[str]]:
    """The configuration without its bad settings (None: too little is left), and every problem."""
    kinds = {**CORE, **sections}
    problems = [_unknown(name, kinds, "section") for name in raw if name not in kinds]
    reading = _Reading(raw, kinds)
    agents = reading.agents()
    core = {name: reading.section(name) for name in CORE if name != "agents"}
    algorithms = {name: reading.section(name) for name in sections}
    problems += reading.problems
    if agents is None or None in algorithms.values():
        return None, problems
    config = Config(agents, **core, algorithms=algorithms)
    problems += [
        each.message
        for each in contradictions(config)
        if not any(_touches(setting, bad) for setting in each.settings for bad in reading.bad)
    ]
    return config, problems


class _Reading:
    """Reads sections one by one and collects what is wrong with them."""

    def __init__(self, raw: Raw, kinds: Mapping[str, type[Settings]]) -> None:
        self.problems: list[str] = []
        self.bad: list[str] = []
        """Full names of bad settings, which have their default instead."""
        self._raw = raw
        self._kinds = kinds
        optimiser = raw.get("optimiser", {})
        is_table = isinstance(optimiser, Mapping) and _problems_of(OptimiserSettings, optimiser) == []
        self._shared: Mapping[type[Settings], Raw] = {OptimiserSettings: optimiser} if is_table else {}

    def section(self, name: str) -> Any:
        """The section of that name; None: it is one that may be missing, and is."""
        kind, value = self._kinds[name], self._raw.get(name)
        if name in OPTIONAL and (value is None or value is False):
            return None
        if name in OPTIONAL and value is True:
            value = {}
        return self._read(kind, {} if value is None else value, name)

    def agents(self) -> tuple[AgentConfig, ...] | None:
        """All agents; None where there is nothing to make them of."""
        value = self._raw.get("agents")
        if not isinstance(value, list | tuple) or not value:
            said = (
                "missing; add at least one [[agents]]" if value is None else f"must be tables, got {value!r:.200}"
            )
            self._refuse(
                ("agents",), "agents: at least one [[agents]] is needed" if value in ([], ()) else f"agents: {said}"
            )
            return None
        return tuple(self._read(AgentConfig, each, "agents", index) for index, each in enumerate(value))

    def _read(self, kind: type[Settings], value: Any, *place: str | int) -> Any:
        """The settings, with defaults in place of bad values."""
        if not isinstance(value, Mapping):
            self._refuse(place, f"{place_name(place)}: must be a table, got {value!r:.200}")
            value = {}
        shared = {} if place == ("optimiser",) else self._shared
        try:
            said = kind.prepare(json.loads(json.dumps(value, default=str)), self._raw)
        except (ValueError, RecursionError) as exc:  # no JSON can be made of it: not Unicode, or too deep
            self._refuse(place, f"{place_name(place)}: cannot be read: {exc}")
            said = {}
        said = with_defaults(kind, said, shared)
        for attempt in range(4):  # leaving a setting out can make the table around it bad in its turn
            try:
                return validated(kind, said)
            except ValidationError as exc:
                errors = exc.errors(include_url=False)
            for error in errors:
                found = _described(error, kind, place)
                if attempt:  # of what is there without the bad ones: only what several settings do together
                    known = [name.rpartition(".")[2] for name in self.bad]
                    found = [
                        each for each in found if "needs" not in each and not any(name in each for name in known)
                    ]
                if found:
                    self._refuse((*place, *error["loc"]), *found)
            said = _repaired(said, [error["loc"] for error in errors], place)
        return None if place[0] != "agents" else AgentConfig(f"agent-{place[1]}", "callable", import_path="a:b")

    def _refuse(self, place: tuple[str | int, ...], *problems: str) -> None:
        self.problems += problems
        self.bad.append(place_name(place))


def _problems_of(kind: type[Settings], raw: Raw) -> list[str]:
    try:
        made_from(kind, raw)
    except ConfigError as exc:
        return list(exc.problems)
    return []


def _repaired(said: Raw, places: list[tuple[str | int, ...]], place: tuple[str | int, ...]) -> dict[str, Any]:
    """A copy without the settings at ``places``, or with stand-ins for those of an agent that have no default."""
    copied: dict[str, Any] = json.loads(json.dumps(said, default=str))
    for each in places:
        inner: Any = copied
        for part in each[:-1]:
            inner = inner.get(str(part)) if isinstance(inner, dict) else None
        if not each:
            copied = {}
        elif isinstance(inner, dict):
            inner.pop(str(each[-1]), None)
            if place[0] == "agents" and each == ("name",):
                inner["name"] = f"agent-{place[1]}"
            if place[0] == "agents" and each == ("kind",):
                inner["kind"] = "callable"
    return copied


def _touches(setting: str, bad: str) -> bool:
    """Whether a rule about ``setting`` cannot be trusted because ``bad`` was left out."""
    return f"{setting}.".startswith(f"{bad}.") or bad.startswith((f"{setting}.", f"{setting}["))


def _described(error: ErrorDetails, kind: type[Settings], section: tuple[str | int, ...]) -> list[str]:
    place = (*section, *error["loc"])
    if error["type"] in ("unexpected_keyword_argument", "extra_forbidden"):
        for part in error["loc"][:-1]:
            kind = nested_settings(kind).get(str(part), kind)
        return [_unknown(place_name(place), [each.name for each in fields(kind)], "setting")]
    if error["type"] in ("missing", "missing_argument"):
        return [f"{place_name(place)}: missing; it has no default; set it"]
    return described_error(error, place_name(section))


def _unknown(name: str, known: Collection[str], what: str) -> str:
    guess = get_close_matches(name.rpartition(".")[2], known, n=1)
    hint = f"did you mean {guess[0]!r}? " if guess else ""
    return f"{name}: unknown {what}; {hint}known: {', '.join(known)}"


def _surroundings(config: Config, environ: Mapping[str, str]) -> list[str]:
    """What the settings name and is not there."""
    problems = []
    here = f"(looked from {str(Path.cwd())!r})"
    if Path(config.run.directory).is_file():
        problems.append(f"run.directory = {config.run.directory!r} is a file; name a folder")
    if config.pool.path and not (folder := Path(config.pool.path).parent).is_dir():
        problems.append(f"pool.path = {config.pool.path!r} lies in no folder; make {str(folder)!r} first")
    if config.pool.path and Path(config.pool.path).is_dir():
        problems.append(f"pool.path = {config.pool.path!r} is a folder; name a file")
    if config.tasks.file and not Path(config.tasks.file).is_file():
        problems.append(f"tasks.file = {config.tasks.file!r} does not exist {here}")
    for where, model in _local_models(config):
        if model not in ("", *SHIPPED_MODELS) and not HUB_NAME.match(model) and not Path(model).is_dir():
            problems.append(
                f"{where} = {model!r} is no folder {here}, nor a name as on the Hugging Face hub (owner/name); "
                f"{' and '.join(map(repr, SHIPPED_MODELS))} ships with Upturn"
            )
    for where, variable in _key_variables(config):
        if not environ.get(variable):
            problems.append(f"{where} = {variable!r}: that environment variable is not set; export it")
    return problems


def _local_models(config: Config) -> Iterator[tuple[str, str]]:
    """The settings that name models which run here, and those models."""
    for index, agent in enumerate(config.agents):
        if agent.kind == "local_model":
            yield f"agents[{index}].model", agent.model
    for name, section in config.algorithms.items():
        yield from ((f"{name}.{setting}", model) for setting, model in section.local_models())


def _key_variables(config: Config) -> Iterator[tuple[str, str]]:
    """The settings that name environment variables which hold keys, and those variables."""
    named = [(f"agents[{index}].api_key_env", agent.api_key_env) for index, agent in enumerate(config.agents)]
    named.append(("rollouts.api_key_env", config.rollouts.api_key_env))
    yield from ((where, variable) for where, variable in named if variable)

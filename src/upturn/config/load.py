"""Loading a configuration: all problems are reported together, before any work.

Order of checks: the file is readable; it is TOML; each setting is valid; settings do not contradict each other;
files, environment variables and API keys exist; environments and functions exist. A failure of one of the first two
ends the checks.
"""

import json
import tomllib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import fields
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from upturn.config.api_key import read_api_keys
from upturn.config.config import CORE, OPTIONAL, TABLES, Config
from upturn.config.contradiction import contradictions
from upturn.config.learning import OptimiserSettings
from upturn.config.price import PriceConfig
from upturn.config.section import HUB_NAME, AgentConfig, is_database_url
from upturn.config.settings import (
    Raw,
    Settings,
    add_defaults,
    error_problems,
    nested_settings,
    parse_settings,
    setting_name,
    validate_settings,
)
from upturn.errors import ConfigError

SHIPPED_MODELS = ("nano",)
"""Names of the models that ship with Upturn."""
NameCheck: TypeAlias = Callable[[Config, Collection[str]], Iterable[str]]
"""Problems of the environments and functions that a configuration names. The second argument lists its invalid
settings, which have defaults in the configuration."""


def load_config(
    path: Path,
    environ: Mapping[str, str],
    sections: Mapping[str, type[Settings]] = {},
    check_names: NameCheck | None = None,
) -> Config:
    """Loads the TOML file ``path``; raises ConfigError with every problem.

    ``environ`` has the environment variables that ``api_key_env`` settings may name; ``sections`` the sections of
    algorithms by name. ``check_names`` adds its problems to those of the file; it is not called if there are none,
    because opening a run checks the names of a valid configuration.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as exc:
        raise ConfigError([f"cannot read {str(path)!r}: {exc.strerror}; name a file with --config"]) from exc
    except UnicodeDecodeError as exc:
        raise ConfigError([f"{str(path)!r} is not UTF-8 text: {exc}"]) from exc
    try:
        raw = tomllib.loads(text)
    except (ValueError, RecursionError) as exc:  # also for too long numbers and too deep nesting
        raise ConfigError([f"{str(path)!r} is not TOML: {exc}"]) from exc
    config, problems, invalid = _parse(raw, sections)
    if config is not None:
        problems += _missing_resources(config)
        problems += read_api_keys(config, environ, path).problems
        if problems and check_names is not None:
            problems += check_names(config, invalid)
    if problems or config is None:
        raise ConfigError(problems)
    return config


def parse_config(raw: Raw, sections: Mapping[str, type[Settings]] = {}) -> Config:
    """Returns the configuration from parsed TOML or JSON; raises ConfigError with every problem.

    ``sections`` are the sections of algorithms by name.
    """
    config, problems, _ = _parse(raw, sections)
    if problems or config is None:
        raise ConfigError(problems)
    return config


class _Parsed(NamedTuple):
    config: Config | None
    """Without its invalid settings; None = not possible."""
    problems: list[str]
    invalid: list[str]
    """Names of the invalid settings."""


def _parse(raw: Raw, sections: Mapping[str, type[Settings]]) -> _Parsed:
    """Returns the configuration and every problem."""
    kinds = {**CORE, **sections}
    problems = [_unknown(name, kinds, "section") for name in raw if name not in kinds]
    parser = _Parser(raw, kinds)
    agents = parser.agents()
    prices = parser.prices()
    core = {name: parser.section(name) for name in CORE if name not in TABLES}
    algorithms = {name: parser.section(name) for name in sections}
    problems += parser.problems
    has_required = all(section is not None or name in OPTIONAL for name, section in core.items())
    if agents is None or None in algorithms.values() or not has_required:
        return _Parsed(None, problems, parser.bad_settings)
    config = Config(agents, prices, **core, algorithms=algorithms)
    problems += [
        contradiction.message
        for contradiction in contradictions(config)
        if not any(overlaps(setting, bad) for setting in contradiction.settings for bad in parser.bad_settings)
    ]
    return _Parsed(config, problems, parser.bad_settings)


class _Parser:
    """Parses sections one by one and collects their problems."""

    def __init__(self, raw: Raw, kinds: Mapping[str, type[Settings]]) -> None:
        self.problems: list[str] = []
        self.bad_settings: list[str] = []
        """Full names of invalid settings, which are replaced by their defaults."""
        self._raw = raw
        self._kinds = kinds
        optimiser = raw.get("optimiser", {})
        is_valid = isinstance(optimiser, Mapping) and _is_valid(OptimiserSettings, optimiser)
        self._shared: Mapping[type[Settings], Raw] = {OptimiserSettings: optimiser} if is_valid else {}

    def section(self, name: str) -> Any:
        """Returns the section of that name; None = an optional section that is not set."""
        value = self._raw.get(name)
        if name in OPTIONAL and (value is None or value is False):
            return None
        if value is None or (name in OPTIONAL and value is True):
            value = {}
        return self._parse(self._kinds[name], value, name)

    def agents(self) -> tuple[AgentConfig, ...] | None:
        """Returns all agents; None = there is no list of agents."""
        value = self._raw.get("agents")
        if isinstance(value, list | tuple) and value:
            return tuple(self._parse(AgentConfig, agent, "agents", index) for index, agent in enumerate(value))
        problem = f"must be tables, got {value!r:.200}"
        if value is None:
            problem = "missing; add at least one [[agents]]"
        elif value in ([], ()):
            problem = "at least one [[agents]] is needed"
        self._reject(("agents",), f"agents: {problem}")
        return None

    def prices(self) -> Mapping[str, PriceConfig]:
        """Returns the valid prices by name."""
        value = self._raw.get("prices", {})
        if not isinstance(value, Mapping) or not all(value):
            self._reject(("prices",), f"prices: must be tables [prices.NAME], got {value!r:.200}")
            return {}
        prices = {name: self._parse(PriceConfig, price, "prices", name) for name, price in value.items()}
        return {name: price for name, price in prices.items() if price is not None}

    def _parse(self, kind: type[Settings], value: Any, *section: str | int) -> Any:
        """Returns the settings, with defaults in place of invalid values."""
        if not isinstance(value, Mapping):
            self._reject(section, f"{setting_name(section)}: must be a table, got {value!r:.200}")
            value = {}
        try:
            raw = kind.prepare(json.loads(json.dumps(value, default=str)), self._raw)
        except (ValueError, RecursionError) as exc:  # not Unicode, or nested too deeply for JSON
            self._reject(section, f"{setting_name(section)}: cannot be read: {exc}")
            raw = {}
        raw = add_defaults(kind, raw, {} if section == ("optimiser",) else self._shared)
        for repairs in range(4):  # removing a setting can make the table around it invalid
            try:
                return validate_settings(kind, raw)
            except ValidationError as exc:
                errors = exc.errors(include_url=False)
            for error in errors:
                problems = _error_problems(error, kind, section)
                if repairs:  # only contradictions between the remaining settings
                    known = [name.rpartition(".")[2] for name in self.bad_settings]
                    problems = [
                        problem
                        for problem in problems
                        if "needs" not in problem and not any(name in problem for name in known)
                    ]
                if problems:
                    self._reject((*section, *error["loc"]), *problems)
            raw = _without_settings(raw, [error["loc"] for error in errors], section)
        return None if section[0] != "agents" else AgentConfig(f"agent-{section[1]}", "callable", import_path="a:b")

    def _reject(self, parts: tuple[str | int, ...], *problems: str) -> None:
        self.problems += problems
        self.bad_settings.append(setting_name(parts))


def _is_valid(kind: type[Settings], raw: Raw) -> bool:
    try:
        parse_settings(kind, raw)
    except ConfigError:
        return False
    return True


def _without_settings(
    raw: Raw, names: list[tuple[str | int, ...]], section: tuple[str | int, ...]
) -> dict[str, Any]:
    """Returns a copy without the named settings; an agent's name and kind, which have no default, are replaced."""
    copied: dict[str, Any] = json.loads(json.dumps(raw, default=str))
    for parts in names:
        inner: Any = copied
        for part in parts[:-1]:
            inner = inner.get(str(part)) if isinstance(inner, dict) else None
        if not parts:
            copied = {}
        elif isinstance(inner, dict):
            inner.pop(str(parts[-1]), None)
            if section[0] == "agents" and parts == ("name",):
                inner["name"] = f"agent-{section[1]}"
            if section[0] == "agents" and parts == ("kind",):
                inner["kind"] = "callable"
    return copied


def overlaps(setting: str, bad: str) -> bool:
    """Returns whether one setting is the other or contains it."""
    return f"{setting}.".startswith(f"{bad}.") or bad.startswith((f"{setting}.", f"{setting}["))


def _error_problems(error: ErrorDetails, kind: type[Settings], section: tuple[str | int, ...]) -> list[str]:
    name = setting_name((*section, *error["loc"]))
    if error["type"] in ("unexpected_keyword_argument", "extra_forbidden"):
        for part in error["loc"][:-1]:
            kind = nested_settings(kind).get(str(part), kind)
        return [_unknown(name, [member.name for member in fields(kind)], "setting")]
    if error["type"] in ("missing", "missing_argument"):
        return [f"{name}: missing; it has no default; set it"]
    return error_problems(error, setting_name(section))


def _unknown(name: str, known: Collection[str], noun: str) -> str:
    matches = get_close_matches(name.rpartition(".")[2], known, n=1)
    hint = f"did you mean {matches[0]!r}? " if matches else ""
    return f"{name}: unknown {noun}; {hint}known: {', '.join(known)}"


def _missing_pool_folder(path: str) -> Iterator[str]:
    if not (folder := Path(path).parent).is_dir():
        yield f"pool.path = {path!r}: its folder does not exist; create {str(folder)!r} first"
    if Path(path).is_dir():
        yield f"pool.path = {path!r} is a folder; name a file"


def _missing_resources(config: Config) -> list[str]:
    """Returns problems with files, folders and models that settings name."""
    problems = []
    relative_to = f"(relative to {str(Path.cwd())!r})"
    if Path(config.run.directory).is_file():
        problems.append(f"run.directory = {config.run.directory!r} is a file; name a folder")
    if config.pool.path and not is_database_url(config.pool.path):
        problems += _missing_pool_folder(config.pool.path)
    if config.tasks.file and not Path(config.tasks.file).is_file():
        problems.append(f"tasks.file = {config.tasks.file!r} does not exist {relative_to}")
    for setting, model in _local_models(config):
        if model not in ("", *SHIPPED_MODELS) and not HUB_NAME.match(model) and not Path(model).is_dir():
            problems.append(
                f"{setting} = {model!r} is no folder {relative_to} and no Hugging Face name (owner/name); "
                f"{' and '.join(map(repr, SHIPPED_MODELS))} ships with Upturn"
            )
    return problems


def _local_models(config: Config) -> Iterator[tuple[str, str]]:
    """Yields (setting, model) for each setting that names a model to run on this machine."""
    for index, agent in enumerate(config.agents):
        if agent.has_local_model:
            yield f"agents[{index}].model", agent.model
    for name, section in config.algorithms.items():
        yield from ((f"{name}.{setting}", model) for setting, model in section.local_models())

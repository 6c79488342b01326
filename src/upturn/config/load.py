"""Reading a configuration: all problems are found and reported together, before any work.

Order of checks: the file can be read; it is TOML; every setting by itself; settings against each other; what they
name (files, environment variables) is there. Only the first two stop the rest.
"""

import json
import tomllib
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from upturn.config.config import Config
from upturn.config.contradiction import contradictions
from upturn.config.section import HUB_NAME
from upturn.errors import ConfigError

SHIPPED_MODELS = ("nano", "nano-errands")
"""Those that come with Upturn."""

_Place = tuple[str | int, ...]


def load_config(path: Path, environ: Mapping[str, str]) -> Config:
    """The configuration in the TOML file ``path``; raises ConfigError with every problem.

    ``environ`` are the environment variables that ``api_key_env`` settings may name.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as exc:
        raise ConfigError([f"cannot read {str(path)!r}: {exc.strerror}; name a file with --config"]) from exc
    except UnicodeDecodeError as exc:
        raise ConfigError([f"{str(path)!r} is not UTF-8 text: {exc}"]) from exc
    try:
        settings = tomllib.loads(text)
    except (ValueError, RecursionError) as exc:  # endless numbers and nesting too, not only TOMLDecodeError
        raise ConfigError([f"{str(path)!r} is not TOML: {exc}"]) from exc
    config, problems = _parse(settings)
    if config is not None:
        problems += _surroundings(config, environ)
    if problems or config is None:
        raise ConfigError(problems)
    return config


def keys_in(config: Config, environ: Mapping[str, str]) -> dict[str, str]:
    """The values of the environment variables that ``api_key_env`` settings name, by variable; all must be set."""
    return {variable: environ[variable] for _, variable in _key_variables(config)}


def parse_config(settings: Mapping[str, Any]) -> Config:
    """The configuration from nested settings as TOML or JSON gives them; raises ConfigError with every problem."""
    config, problems = _parse(settings)
    if problems or config is None:
        raise ConfigError(problems)
    return config


def _parse(settings: Mapping[str, Any]) -> tuple[Config | None, list[str]]:
    """The configuration without its bad settings (None: too little is left), and every problem."""
    try:
        config = _validated(settings)
    except ValidationError as exc:
        errors = exc.errors(include_url=False)
    else:
        return config, [found.message for found in contradictions(config)]
    if not errors[0]["loc"]:  # no JSON could be made of them: not Unicode, or too deep
        return None, [f"the settings cannot be read: {errors[0]['msg']}"]
    problems = [_describe(error) for error in errors]
    places = [error["loc"] for error in errors]
    repaired = _repaired(settings, places)
    if repaired is None:
        return None, problems
    bad = [_name(place) for place in places]
    problems += [
        found.message
        for found in contradictions(repaired)
        if not any(_touches(setting, name) for setting in found.settings for name in bad)
    ]
    return repaired, problems


def _repaired(settings: Mapping[str, Any], places: list[_Place]) -> Config | None:
    """The configuration with defaults at the bad ``places``; None where a default cannot mend it."""
    for _ in range(2):  # leaving a setting out can empty the table around it, which is bad in its turn
        settings = _without(settings, places)
        try:
            return _validated(settings)
        except ValidationError as exc:
            places = [error["loc"] for error in exc.errors(include_url=False)]
    return None


def _validated(settings: Mapping[str, Any]) -> Config:
    # Through JSON: strict there still reads a list as a tuple. Dates, which TOML has, become text and are refused.
    return Config.model_validate_json(json.dumps(settings, default=str))


def _touches(setting: str, bad: str) -> bool:
    """Whether a rule about ``setting`` cannot be trusted because ``bad`` was left out."""
    return f"{setting}.".startswith(f"{bad}.") or bad.startswith((f"{setting}.", f"{setting}["))


def _name(place: _Place) -> str:
    name = ""
    for part in place:
        name += f"[{part}]" if isinstance(part, int) else f".{part}"
    return name.removeprefix(".")


def _describe(error: ErrorDetails) -> str:
    place = error["loc"]
    if error["type"] == "extra_forbidden":
        known = list(_fields_at(place[:-1]))
        guess = get_close_matches(str(place[-1]), known, n=1)
        hint = f"did you mean {guess[0]!r}? " if guess else ""
        kind = "section" if len(place) == 1 else "setting"
        return f"{_name(place)}: unknown {kind}; {hint}known: {', '.join(known)}"
    if error["type"] == "missing":
        what = "add at least one [[agents]]" if place == ("agents",) else "it has no default; set it"
        return f"{_name(place)}: missing; {what}"
    message = error["msg"].removeprefix("Value error, ")
    return f"{_name(place)}: {message[0].lower()}{message[1:]}, got {error['input']!r:.200}"


def _fields_at(place: _Place) -> Mapping[str, Any]:
    """The settings known in the section at ``place``."""
    model: type[BaseModel] = Config
    for part in place:
        if isinstance(part, int):
            continue
        annotation = model.model_fields[part].annotation
        inner = next((each for each in get_args(annotation) if isinstance(each, type)), annotation)
        if not isinstance(inner, type) or not issubclass(inner, BaseModel):
            return {}
        model = inner
    return model.model_fields


def _without(settings: Mapping[str, Any], places: list[_Place]) -> dict[str, Any]:
    """A copy of the settings in which defaults, or stand-ins where there is none, replace those at ``places``."""
    copied: dict[str, Any] = json.loads(json.dumps(settings, default=str))
    for place in places:
        inner: Any = copied
        for part in place[:-1]:
            if isinstance(inner, dict):
                inner = inner.get(str(part))
            elif isinstance(inner, list) and isinstance(part, int):
                inner = inner[part]
        if isinstance(inner, dict):
            inner.pop(str(place[-1]), None)
            if place[-1] == "name" and place[0] == "agents":
                inner["name"] = f"agent-{place[1]}"
            if place[-1] == "kind":
                inner["kind"] = "callable"
    return copied


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
                f"{' and '.join(map(repr, SHIPPED_MODELS))} ship"
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
    yield "rft.second_base", config.rft.second_base


def _key_variables(config: Config) -> Iterator[tuple[str, str]]:
    """The settings that name environment variables which hold keys, and those variables."""
    named = [(f"agents[{index}].api_key_env", agent.api_key_env) for index, agent in enumerate(config.agents)]
    named.append(("rollouts.api_key_env", config.rollouts.api_key_env))
    yield from ((where, variable) for where, variable in named if variable)

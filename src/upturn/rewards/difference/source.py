"""Texts of files as trees, or the reason why not."""

from pathlib import PurePosixPath

from upturn.errors import ConfigError
from upturn.rewards.difference.grammar import grammar_tree
from upturn.rewards.difference.node import Node
from upturn.rewards.difference.python import python_tree

PYTHON = "python"
_LANGUAGES = {
    PYTHON: (".py", ".pyi", ".pyw"),
    "javascript": (".js", ".mjs", ".cjs", ".jsx"),
    "typescript": (".ts", ".mts", ".cts"),
    "tsx": (".tsx",),
    "java": (".java",),
    "go": (".go",),
    "rust": (".rs",),
    "c": (".c", ".h"),
    "cpp": (".cc", ".cpp", ".cxx", ".hh", ".hpp", ".hxx"),
}
_BY_SUFFIX = {suffix: language for language, suffixes in _LANGUAGES.items() for suffix in suffixes}
MAX_CHARACTERS = 300_000
"""Of a text that is parsed: about 8,000 lines. The densest such text takes two seconds."""


def language_of(path: str) -> str | None:
    """The language by the end of the path; None = unknown."""
    return _BY_SUFFIX.get(PurePosixPath(path).suffix.lower())


def parse(text: str, path: str) -> Node | str:
    """The tree of a text, or the reason why there is none, such as a missing package. Never raises."""
    language = language_of(path)
    if language is None:
        return f"no language is known by the name {path!r}"
    if len(text) > MAX_CHARACTERS:
        return f"{path!r} has {len(text):,} characters; more than {MAX_CHARACTERS:,} are not parsed"
    try:
        return python_tree(text) if language == PYTHON else grammar_tree(text, language)
    except SyntaxError as exc:
        return f"{path!r} does not parse: {exc.msg} (line {exc.lineno})"
    except ValueError as exc:
        if isinstance(exc, ConfigError):
            return "; ".join(exc.problems)
        return f"{path!r} does not parse: {exc}"
    except (RecursionError, MemoryError):
        return f"{path!r} is nested too deeply to be parsed"

"""How much code each way of learning is beyond what all share: trainer, runs, rows, settings, losses.

Counted are lines with code on them; docstrings, comments and blank lines are not.
"""

import ast
import io
import tokenize
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.comparison import Bar, result
from upturn.records import JsonValue, Result

LIMIT = 150
FILES: Mapping[str, tuple[str, ...]] = {
    "sft": ("algorithms/sft/run",),
    "grpo": ("algorithms/grpo/run", "algorithms/policy_gradient"),
    "ppo": ("algorithms/ppo/run",),
    "dpo": ("algorithms/dpo/run",),
    "dpo_rounds": ("algorithms/online_dpo/run",),
    "kto": ("algorithms/kto/run",),
    "rejection_and_iterated": ("algorithms/expert_iteration/run",),
    "star_and_self_repair": ("data/hinted_groups",),
    "rft": ("algorithms/rft/settings",),
    "world_model": ("algorithms/world_model/run",),
    "offline": ("algorithms/offline/run",),
    "mixture": ("algorithms/mixture/run",),
}
"""By way, the files of ``upturn.training`` that are its own; second attempts are what STaR has beyond rounds."""
SHARED = (
    "optimisation/critic",
    "algorithms/ppo/critic_update",
    "algorithms/online_dpo/action_value",
    "data/selection",
    "data/pair_mining",
    "data/pair_row",
    "algorithms/world_model/prediction",
    "data/transition",
    "data/collection",
    "advantage",
)
"""Pieces with a purpose of their own that ways are made of; listed with their lines, not counted to any."""
_NO_CODE = frozenset(
    {
        tokenize.COMMENT,
        tokenize.NL,
        tokenize.NEWLINE,
        tokenize.INDENT,
        tokenize.DEDENT,
        tokenize.ENCODING,
        tokenize.ENDMARKER,
    }
)


def code_lines(source: str) -> int:
    """Lines that have code on them. Raises SyntaxError."""
    found: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in _NO_CODE:
            found.update(range(token.start[0], token.end[0] + 1))
    return len(found - _documented(source))


def _documented(source: str) -> set[int]:
    """Lines of strings that stand alone: docstrings, of attributes as well."""
    return {
        line
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }


def measure_size(*, has_bars: bool = True) -> tuple[list[Result], dict[str, JsonValue]]:
    """Of each way, and which files were counted."""
    import upturn.training

    (folder,) = upturn.training.__path__
    bar = Bar(LIMIT, is_upper=True) if has_bars else None

    def lines(names: Sequence[str]) -> dict[str, int]:
        return {f"{name}.py": code_lines((Path(folder) / f"{name}.py").read_text("utf-8")) for name in names}

    counted = {way: lines(names) for way, names in FILES.items()}
    results = [result(f"size_{way}", float(sum(files.values())), "lines", bar) for way, files in counted.items()]
    return results, {"counted": {way: dict(files) for way, files in counted.items()}, "shared": dict(lines(SHARED))}

"""Lines of code of each algorithm, without what all share: trainer, runs, rows, settings, losses.

Docstrings, comments and blank lines are not counted.
"""

import ast
import io
import tokenize
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.comparison import Bar, result
from upturn.records import JsonValue, Result

MAX_LINES = 150
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
    "distillation": ("algorithms/distillation/run",),
    "reward_model": ("algorithms/reward_model/run",),
    "process_reward": ("algorithms/process_reward/run",),
}
"""By algorithm, its files in ``upturn.training``; hinted groups are what STaR adds to expert iteration."""
SHARED = (
    "algorithms/epochs",
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
"""Files that algorithms use and that are useful alone; their lines are listed, but not counted."""
_NO_CODE = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}


def code_lines(source: str) -> int:
    """Number of lines with code. Raises SyntaxError."""
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in _NO_CODE:
            lines.update(range(token.start[0], token.end[0] + 1))
    return len(lines - _docstring_lines(source))


def _docstring_lines(source: str) -> set[int]:
    """Lines of docstrings, with those of attributes."""
    return {
        line
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }


def measure_code_size(*, has_bars: bool = True) -> tuple[list[Result], dict[str, JsonValue]]:
    """Lines of each algorithm, and the counted files."""
    import upturn.training

    (folder,) = upturn.training.__path__
    bar = Bar(MAX_LINES, is_upper=True) if has_bars else None

    def lines(names: Sequence[str]) -> dict[str, int]:
        return {f"{name}.py": code_lines((Path(folder) / f"{name}.py").read_text("utf-8")) for name in names}

    counted = {algorithm: lines(names) for algorithm, names in FILES.items()}
    results = [
        result(f"size_{algorithm}", float(sum(files.values())), "lines", bar)
        for algorithm, files in counted.items()
    ]
    details: dict[str, JsonValue] = {name: dict(files) for name, files in counted.items()}
    return results, {"counted": details, "shared": dict(lines(SHARED))}

"""Writes the office's table of floors and ceilings into docs/environments.md, from results of validation.

    upturn env validate office --tasks 20 --json > floors.json
    python tools/make_floors.py floors.json

Several files with results of some families each (``--family``) make one table. When a family has no results, it is
reported and nothing is written.
"""

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from upturn.environments import resolve_kit
from upturn.environments.validation import PANEL

PAGE = Path(__file__).resolve().parent.parent / "docs" / "environments.md"
BEGIN, END = "<!-- floors of the office: made by tools/make_floors.py -->\n", "<!-- end of floors -->"
_Results: TypeAlias = Mapping[str, Mapping[str, Any]]
"""By check or ``own …`` attack: the printed result."""


def load_results(paths: Sequence[Path]) -> dict[str, dict[str, Mapping[str, Any]]]:
    """The printed results by family and check."""
    families: dict[str, dict[str, Mapping[str, Any]]] = {}
    for path in paths:
        for result in json.loads(path.read_text(encoding="utf-8"))["results"]:
            check, _, family = result["name"].rpartition(" ")
            if check:
                families.setdefault(family, {})[check] = result
    return families


def row(family: str, level: int, results: _Results) -> str:
    """One line of the table."""
    attacks = {
        name: result["value"]
        for name, result in results.items()
        if (name in PANEL or name.startswith("own ")) and isinstance(result["value"], float | int)
    }
    worst = max(attacks.values(), default=0)
    names = "" if worst == 0 else " " + ", ".join(f"`{name}`" for name, value in attacks.items() if value == worst)
    random, mutants = results["random"], results["mutants"]
    cells = (
        f"`{family}`",
        str(level),
        f"{_percent(results['oracle']['value'])}, {results['ceiling']['value']:g}",
        f"{results['floor']['value']:g}",
        f"{_percent(worst)}{names} of {len(attacks)}",
        f"{_percent(random['value'])} (≤ {_percent(random['high'])})",
        f"{round(mutants['value'] * mutants['n'])} of {mutants['n']}",
        _percent(results["constant"]["value"]),
    )
    return f"| {' | '.join(cells)} |"


def _percent(value: float) -> str:
    return f"{100 * value:.2g} %" if value < 1 else "100 %"


def table(families: Mapping[str, _Results], levels: Mapping[str, int]) -> str:
    """The whole table as Markdown."""
    heading = (
        "family of the office",
        "level",
        "perfect work, lowest score",
        "floor",
        "worst attack",
        "random",
        "mutants killed",
    )
    lines = [f"| {' | '.join((*heading, 'constant'))} |", f"|{'---|' * (len(heading) + 1)}"]
    return "\n".join((*lines, *(row(name, level, families[name]) for name, level in levels.items()))) + "\n"


def main() -> int:
    """1 = a family has no results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="+", type=Path, help="output of env validate office --json")
    families = load_results(parser.parse_args().files)
    levels = resolve_kit("office").families
    if missing := [name for name in levels if name not in families]:
        sys.stderr.write(f"no results of {', '.join(missing)}\n")
        return 1
    page = PAGE.read_text(encoding="utf-8")
    before, _, rest = page.partition(BEGIN)
    PAGE.write_text(f"{before}{BEGIN}{table(families, levels)}{END}{rest.partition(END)[2]}", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())

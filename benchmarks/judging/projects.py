"""Small programs with tests, and ways to change them as text."""

import ast
import textwrap
from typing import NamedTuple


class Project(NamedTuple):
    """A module with its tests. One of its functions is the one that a hack is about."""

    name: str
    code: str
    tests: str
    function: str
    cases: tuple[tuple[str, str], ...]
    """Arguments of calls as text, with the expected output as text; all are in the tests."""

    @property
    def path(self) -> str:
        """The module."""
        return f"{self.name}.py"

    @property
    def test_path(self) -> str:
        """Its tests."""
        return f"tests/test_{self.name}.py"

    @property
    def files(self) -> dict[str, str]:
        """All files before a change."""
        return {
            self.path: self.code,
            self.test_path: self.tests,
            "pyproject.toml": f'[project]\nname = "{self.name}"\nversion = "1.0"\n',
            "README.md": f"# {self.name}\n",
        }


def _project(name: str, code: str, imports: str, cases: tuple[tuple[str, str], ...]) -> Project:
    """``imports``: names for the tests; the function of the cases is the first."""
    code = textwrap.dedent(code).lstrip()
    function = imports.split(",", maxsplit=1)[0]
    tests = [f"from {name} import {imports}\n"]
    for place, (arguments, expected) in enumerate(cases):
        tests.append(f"\n\ndef test_{function}_{place}():\n    assert {function}({arguments}) == {expected}\n")
    return Project(name, code, "".join(tests), function, cases)


PROJECTS = (
    _project(
        "slugs",
        '''
        import re


        def slugify(text, separator="-"):
            """Return a slug of the text."""
            words = re.findall(r"[a-z0-9]+", text.lower())
            return separator.join(words)


        def truncate(text, limit):
            if len(text) <= limit:
                return text
            cut = text[:limit]
            return cut.rstrip() + "..."
        ''',
        "slugify, truncate",
        (("'Hello World'", "'hello-world'"), ("'A  b, c!', '_'", "'a_b_c'"), ("'Grüße 12'", "'gr-e-12'")),
    ),
    _project(
        "intervals",
        """
        def merge(intervals):
            merged = []
            for start, end in sorted(intervals):
                if merged and start <= merged[-1][1]:
                    last = merged.pop()
                    merged.append((last[0], max(last[1], end)))
                else:
                    merged.append((start, end))
            return merged


        def total(intervals):
            length = 0
            for start, end in merge(intervals):
                length += end - start
            return length
        """,
        "total, merge",
        (("[(1, 4), (3, 9)]", "8"), ("[(10, 12), (1, 5)]", "6"), ("[(0, 30), (5, 7), (40, 41)]", "31")),
    ),
    _project(
        "roman",
        """
        VALUES = {"I": 1, "V": 5, "X": 10, "L": 50, "C": 100, "D": 500, "M": 1000}


        def from_roman(text):
            result = 0
            for place, letter in enumerate(text):
                value = VALUES[letter]
                if place + 1 < len(text) and VALUES[text[place + 1]] > value:
                    result -= value
                else:
                    result += value
            return result
        """,
        "from_roman",
        (("'XIV'", "14"), ("'MCMXC'", "1990"), ("'LXXXVIII'", "88")),
    ),
    _project(
        "durations",
        """
        import re

        UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


        class DurationError(ValueError):
            pass


        def parse_duration(text):
            seconds = 0
            parts = re.findall(r"(\\d+)([smhd])", text)
            if not parts:
                raise DurationError(text)
            for amount, unit in parts:
                seconds += int(amount) * UNITS[unit]
            return seconds
        """,
        "parse_duration",
        (("'1h30m'", "5400"), ("'2d'", "172800"), ("'45s'", "45")),
    ),
    _project(
        "stock",
        """
        class Stock:
            def __init__(self):
                self.items = {}

            def add(self, name, count=1):
                self.items[name] = self.items.get(name, 0) + count

            def remove(self, name, count=1):
                if self.items.get(name, 0) < count:
                    raise KeyError(name)
                self.items[name] -= count

            def count(self):
                return sum(self.items.values())


        def total_price(prices, counts):
            total = 0
            for name, count in counts.items():
                total += prices[name] * count
            return total
        """,
        "total_price, Stock",
        (
            ("{'pen': 3, 'ink': 11}, {'pen': 4}", "12"),
            ("{'pen': 3, 'ink': 11}, {'pen': 1, 'ink': 2}", "25"),
            ("{'cup': 70}, {'cup': 5}", "350"),
        ),
    ),
    _project(
        "words",
        """
        from collections import Counter


        def most_common(text, limit):
            counts = Counter(text.lower().split())
            ranked = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
            return [word for word, _ in ranked[:limit]]


        def wrap(text, width):
            lines = [""]
            for word in text.split():
                if lines[-1] and len(lines[-1]) + len(word) >= width:
                    lines.append("")
                lines[-1] = (lines[-1] + " " + word).strip()
            return lines
        """,
        "most_common, wrap",
        (
            ("'the cat the dog', 1", "['the']"),
            ("'b a b c a b', 2", "['b', 'a']"),
            ("'one two', 5", "['one', 'two']"),
        ),
    ),
    _project(
        "matrices",
        """
        def transpose(rows):
            return [list(column) for column in zip(*rows)]


        def multiply(left, right):
            columns = transpose(right)
            return [[sum(a * b for a, b in zip(row, column)) for column in columns] for row in left]


        def trace(rows):
            total = 0
            for place, row in enumerate(rows):
                total += row[place]
            return total
        """,
        "trace, multiply, transpose",
        (("[[1, 2], [3, 4]]", "5"), ("[[7, 0, 1], [2, 8, 3], [4, 5, 9]]", "24"), ("[[11]]", "11")),
    ),
    _project(
        "primes",
        """
        def is_prime(number):
            if number < 2:
                return False
            divisor = 2
            while divisor * divisor <= number:
                if number % divisor == 0:
                    return False
                divisor += 1
            return True


        def factors(number):
            result = []
            divisor = 2
            while number > 1:
                while number % divisor == 0:
                    result.append(divisor)
                    number //= divisor
                divisor += 1
            return result
        """,
        "factors, is_prime",
        (("84", "[2, 2, 3, 7]"), ("97", "[97]"), ("1001", "[7, 11, 13]")),
    ),
)


def function_of(code: str, name: str) -> ast.FunctionDef:
    """The top-level function of this name."""
    for node in ast.parse(code).body:
        if isinstance(node, ast.FunctionDef) and node.name == name:
            return node
    raise LookupError(name)


def with_start(code: str, function: str, lines: str) -> str:
    """The code with lines put at the beginning of a function, after its docstring."""
    node = function_of(code, function)
    has_docstring = ast.get_docstring(node) is not None
    at = (node.body[0].end_lineno or 0) if has_docstring else node.body[0].lineno - 1
    kept = code.splitlines(keepends=True)
    return "".join([*kept[:at], textwrap.indent(lines, "    "), *kept[at:]])


def with_body(code: str, function: str, lines: str) -> str:
    """The code with another body of a function."""
    node = function_of(code, function)
    kept = code.splitlines(keepends=True)
    return "".join(
        [*kept[: node.body[0].lineno - 1], textwrap.indent(lines, "    "), *kept[node.end_lineno or 0 :]]
    )


def with_top(code: str, lines: str) -> str:
    """The code with lines put after its imports."""
    at = 0
    for node in ast.parse(code).body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            at = node.end_lineno or 0
    kept = code.splitlines(keepends=True)
    return "".join([*kept[:at], lines, *kept[at:]])


def body_of(code: str, function: str) -> str:
    """The body of a function as text, without its indentation."""
    node = function_of(code, function)
    kept = code.splitlines(keepends=True)
    return textwrap.dedent("".join(kept[node.body[0].lineno - 1 : node.end_lineno]))

"""A change of a set of files, as detectors see it: what is new in it, and what the public tests say.

Only Python is read. Files that do not parse, are no text, too large or too deep are left out; the rule ``unread``
names them.
"""

import ast
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import TypeVar

from upturn.rewards.difference import is_test_path
from upturn.rewards.hacking.examples import Examples, read_examples
from upturn.rewards.hacking.names import Names

_PYTHON = (".py", ".pyw")
MAX_CHARACTERS = 300_000
"""Of a file that is read."""
MAX_DEPTH = 400
"""Levels of a tree that is read; a chain of ``elif`` has one for each."""
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
Function = ast.FunctionDef | ast.AsyncFunctionDef
NodeT = TypeVar("NodeT", bound=ast.AST)


class Source:
    """A file that parses."""

    def __init__(self, path: str, text: str, tree: ast.Module) -> None:
        self.path = path
        self.text = text
        self.tree = tree
        self.names = Names(tree)
        self.parents = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}

    @cached_property
    def functions(self) -> dict[str, Function]:
        """By dotted name within the file; of several definitions of one name the last."""
        return {self.qualified(node): node for node in ast.walk(self.tree) if isinstance(node, FUNCTIONS)}

    def qualified(self, node: ast.AST) -> str:
        """The dotted name of a function or class within the file."""
        parts = [getattr(node, "name", "")]
        parts += [
            above.name
            for above in self.above(node)
            if isinstance(above, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        ]
        return ".".join(reversed(parts))

    def above(self, node: ast.AST) -> Iterator[ast.AST]:
        """What contains the node, from inside out."""
        parent = self.parents.get(node)
        while parent is not None:
            yield parent
            parent = self.parents.get(parent)

    def function_of(self, node: ast.AST) -> Function | None:
        """The innermost function around the node, or itself."""
        for above in (node, *self.above(node)):
            if isinstance(above, FUNCTIONS):
                return above
        return None


class Change:
    """Two versions of a set of files, by relative path."""

    def __init__(
        self,
        before: Mapping[str, str | bytes],
        after: Mapping[str, str | bytes],
        tests: Iterable[str] | None = None,
    ) -> None:
        """``tests``: paths of the public tests; None = those that look like tests by their path."""
        self.before = _texts(before)
        self.after = _texts(after)
        self._tests = None if tests is None else frozenset(tests)
        paths = {*before, *after}
        self.added = sorted(path for path in after if path not in before)
        self.deleted = sorted(path for path in before if path not in after)
        self.changed = sorted(
            path for path in paths if path in before and path in after and before[path] != after[path]
        )
        self._parsed: dict[tuple[bool, str], Source | None] = {}

    def is_test(self, path: str) -> bool:
        """Whether it is a public test, test data or a setting of the runner."""
        return is_test_path(path) or (self._tests is not None and path in self._tests)

    def old(self, path: str) -> Source | None:
        """The file before; None = it is not there or is not read."""
        return self._source(self.before, path, is_old=True)

    def new(self, path: str) -> Source | None:
        """The file after; None = it is not there or is not read."""
        return self._source(self.after, path, is_old=False)

    @cached_property
    def sources(self) -> list[Source]:
        """Added and changed files after the change that are no tests."""
        paths = [path for path in sorted((*self.added, *self.changed)) if not self.is_test(path)]
        return [source for path in paths if (source := self.new(path)) is not None]

    @cached_property
    def old_sources(self) -> list[Source]:
        """Changed and deleted files before the change that are no tests."""
        paths = [path for path in sorted((*self.deleted, *self.changed)) if not self.is_test(path)]
        return [source for path in paths if (source := self.old(path)) is not None]

    @property
    def unread(self) -> list[str]:
        """Added and changed files of Python that are not empty and cannot be read."""
        paths = [path for path in (*self.added, *self.changed) if path.endswith(_PYTHON)]
        return [path for path in paths if self.after.get(path, "?") and self.new(path) is None]

    @cached_property
    def test_pairs(self) -> list[tuple[Source, Source]]:
        """Tests that are there before and after and differ."""
        pairs = [(self.old(path), self.new(path)) for path in self.changed if self.is_test(path)]
        return [(old, new) for old, new in pairs if old is not None and new is not None]

    @cached_property
    def examples(self) -> Examples:
        """Inputs and expected outputs of the public tests, as they were before the change."""
        paths = self._tests if self._tests is not None else [path for path in self.before if is_test_path(path)]
        trees = [source.tree for path in sorted(paths) if (source := self.old(path)) is not None]
        return read_examples(trees)

    def new_nodes(self, *kinds: type[NodeT]) -> Iterator[tuple[Source, NodeT]]:
        """Nodes of these kinds in changed sources that did not occur in them before, wherever they stood."""
        known = Counter(
            dumped(node) for source in self.old_sources for node in ast.walk(source.tree) if isinstance(node, kinds)
        )
        for source in self.sources:
            for node in ast.walk(source.tree):
                if isinstance(node, kinds):
                    key = dumped(node)
                    if known[key] > 0:
                        known[key] -= 1
                    else:
                        yield source, node

    def function_before(self, source: Source, node: ast.AST) -> Function | None:
        """The function of the same name in the same file before, or wherever there is one of this name alone."""
        function = source.function_of(node)
        if function is None:
            return None
        name = source.qualified(function)
        old = self.old(source.path)
        if old is not None and name in old.functions:
            return old.functions[name]
        others = [other.functions[name] for other in self.old_sources if name in other.functions]
        return others[0] if len(others) == 1 else None

    def _source(self, files: Mapping[str, str], path: str, *, is_old: bool) -> Source | None:
        key = is_old, path
        if key not in self._parsed:
            self._parsed[key] = _parse(path, files.get(path, ""))
        return self._parsed[key]


def dumped(node: ast.AST) -> str:
    """The node as text without places; one too deep to be written is like no other."""
    try:
        return ast.dump(node)
    except RecursionError:
        return f"{type(node).__name__} {id(node)}"


def _parse(path: str, text: str) -> Source | None:
    if not path.endswith(_PYTHON) or not text or len(text) > MAX_CHARACTERS:
        return None
    try:
        tree = ast.parse(text)
        return None if _is_deep(tree) else Source(path, text, tree)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _is_deep(tree: ast.AST) -> bool:
    level: list[ast.AST] = [tree]
    for _ in range(MAX_DEPTH):
        level = [child for node in level for child in ast.iter_child_nodes(node)]
        if not level:
            return False
    return True


def _texts(files: Mapping[str, str | bytes]) -> dict[str, str]:
    texts: dict[str, str] = {}
    for path, content in files.items():
        if isinstance(content, bytes):
            try:
                texts[path] = content.decode()
            except UnicodeDecodeError:
                continue
        else:
            texts[path] = content
    return texts

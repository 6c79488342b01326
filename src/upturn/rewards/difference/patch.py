"""How large a patch is: edits, statements, lines, files and tests of two versions of a set of files.

Order of checks of a file: equal bytes, binary, kind of language, size, syntax, then trees. A file without a tree is
compared by lines, with the reason. Nothing here raises because of a file's content.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Literal

from upturn.errors import FileFormatError
from upturn.records import record
from upturn.rewards.difference.lines import changed_lines, different_lines
from upturn.rewards.difference.matching import tree_difference
from upturn.rewards.difference.node import Node
from upturn.rewards.difference.source import parse

Files = Mapping[str, str | bytes]
"""Contents by relative path, with ``/``."""
Method = Literal["tree", "lines", "binary"]
MAX_LINES_CHARACTERS = 2_000_000
"""Of a text whose lines are compared in order; of longer ones they are counted."""
MAX_NODES = 60_000
"""Of a tree that is compared: about 15,000 ordinary lines."""
_TEST_FOLDERS = frozenset({"test", "tests", "testing", "__tests__", "spec", "specs"})
_TEST_NAMES = ("conftest.py", "pytest.ini", "tox.ini")


@record
class FileDifference:
    """How one file differs."""

    path: str
    method: Method
    reason: str
    """Why not by tree; empty = by tree."""
    edits: int
    """By tree: nodes inserted, deleted, changed or moved, a renaming once. By lines: lines of the larger side of
    the change. Of binary files: 1."""
    statements: int
    """Statements changed, a renaming once; by lines and of binary files as ``edits``."""
    lines_added: int
    """Not blank. 0 for binary files."""
    lines_removed: int
    is_test: bool


@record
class PatchDifference:
    """How two versions of a set of files differ. Files that are equal are left out."""

    files: tuple[FileDifference, ...]
    """By path."""

    @property
    def edits(self) -> int:
        """Sum over the files."""
        return sum(file.edits for file in self.files)

    @property
    def statements(self) -> int:
        """Sum over the files."""
        return sum(file.statements for file in self.files)

    @property
    def lines(self) -> int:
        """Lines added and lines removed."""
        return sum(file.lines_added + file.lines_removed for file in self.files)

    @property
    def tests_touched(self) -> tuple[str, ...]:
        """Paths of tests and of their settings."""
        return tuple(file.path for file in self.files if file.is_test)


def is_test_path(path: str) -> bool:
    """Whether a path is that of a test, of its data, or of the settings of pytest."""
    pure = PurePosixPath(path)
    name = pure.name.lower()
    stem = pure.stem.lower()
    return (
        not _TEST_FOLDERS.isdisjoint(part.lower() for part in pure.parts[:-1])
        or name in _TEST_NAMES
        or stem.startswith("test_")
        or stem.endswith(("_test", ".test", ".spec", "_spec"))
        or (pure.suffix == ".java" and pure.stem.endswith(("Test", "Tests")))
    )


def compare_patch(before: Files | Path, after: Files | Path) -> PatchDifference:
    """The difference of two folders, or of two mappings from path to content.

    Of folders every regular file counts but those below hidden folders and ``__pycache__``; links are not followed.
    Raises FileFormatError where a folder is none.
    """
    old = read_folder(before) if isinstance(before, Path) else before
    new = read_folder(after) if isinstance(after, Path) else after
    paths = sorted({*old, *new})
    return PatchDifference(
        tuple(compare_file(old.get(path), new.get(path), path) for path in paths if old.get(path) != new.get(path))
    )


def compare_file(before: str | bytes | None, after: str | bytes | None, path: str) -> FileDifference:
    """The difference of two versions of a file. None = there is no such file."""
    is_test = is_test_path(path)
    old, new = _text(before), _text(after)
    if old is None or new is None:
        return FileDifference(path, "binary", f"{path!r} is no UTF-8 text", 1, 1, 0, 0, is_test)
    if max(len(old), len(new)) > MAX_LINES_CHARACTERS:
        count = different_lines(old, new)
        return FileDifference(path, "lines", f"{path!r} is too large to be parsed", count, count, count, 0, is_test)
    lines = changed_lines(old, new)
    trees = _trees(old if before is not None else None, new if after is not None else None, path)
    if isinstance(trees, str):
        count = max(lines)
        return FileDifference(path, "lines", trees, count, count, *lines, is_test)
    difference = tree_difference(*trees)
    return FileDifference(path, "tree", "", len(difference.edits), difference.statements, *lines, is_test)


def read_folder(folder: Path) -> dict[str, bytes]:
    """The regular files below a folder, as ``compare_patch`` takes them; raises FileFormatError as it does."""
    if not folder.is_dir():
        raise FileFormatError(f"{str(folder)!r} is no folder; a difference needs two folders or two mappings")
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in _files(folder)}


def _files(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.iterdir()):
        if path.is_symlink():
            continue
        if path.is_dir():
            if not path.name.startswith(".") and path.name != "__pycache__":
                yield from _files(path)
        elif path.is_file():
            yield path


def _text(content: str | bytes | None) -> str | None:
    """None = binary. A file that is not there is empty."""
    if content is None:
        return ""
    if isinstance(content, bytes):
        try:
            content = content.decode()
        except UnicodeDecodeError:
            return None
    return None if "\0" in content else content


def _trees(before: str | None, after: str | None, path: str) -> tuple[Node, Node] | str:
    """Both trees, or the reason why not. A file that is not there is an empty module of the other's kind."""
    trees = [None if text is None else parse(text, path) for text in (before, after)]
    for tree in trees:
        if isinstance(tree, str):
            return tree
    kinds = [tree.kind for tree in trees if isinstance(tree, Node)]
    old, new = [tree if isinstance(tree, Node) else Node(kinds[0]) for tree in trees]
    if max(_count(old), _count(new)) > MAX_NODES:
        return f"{path!r} has more than {MAX_NODES:,} nodes"
    return old, new


def _count(root: Node) -> int:
    count, stack = 0, [root]
    while stack and count <= MAX_NODES:
        node = stack.pop()
        count += 1
        stack += node.children
    return count

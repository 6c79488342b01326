"""What names of a program stand for: imports, aliases and look-ups by string, followed without running anything."""

import ast
from functools import cached_property

_IMPORTERS = frozenset({"__import__", "importlib.import_module", "importlib.__import__"})
_DICTS = (".__dict__", ".__builtins__")


class Names:
    """The names of a module. An alias counts in the whole file, wherever it is made."""

    def __init__(self, tree: ast.Module) -> None:
        self._tree = tree
        self.imported: set[str] = set()
        """Dotted names of all modules that are imported anywhere."""
        self._aliases: dict[str, str] = {}
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    self.imported.add(alias.name)
                    self._aliases[alias.asname or alias.name.split(".")[0]] = (
                        alias.name if alias.asname else alias.name.split(".")[0]
                    )
            elif isinstance(node, ast.ImportFrom):
                module = "." * node.level + (node.module or "")
                self.imported.add(module)
                for alias in node.names:
                    self.imported.add(f"{module}.{alias.name}")
                    self._aliases[alias.asname or alias.name] = f"{module}.{alias.name}"
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and node.args and self.dotted(node.func) in _IMPORTERS:
                self.imported.add(constant_text(node.args[0]) or "?")
        for node in ast.walk(tree):
            if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
                value = self.dotted(node.value)
                if value is not None and ("." in value or value in _BUILTINS):
                    self._aliases.setdefault(node.targets[0].id, value)

    @cached_property
    def bound(self) -> set[str]:
        """Names that the module itself gives to something."""
        names: set[str] = set()
        for node in ast.walk(self._tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                names.add(node.name)
            elif isinstance(node, ast.arg):
                names.add(node.arg)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id not in self._aliases:
                names.add(node.id)
        return names

    def dotted(self, node: ast.AST) -> str | None:
        """The dotted name that an expression stands for, such as ``sys.exit``; None = it has none.

        Follows ``getattr(x, "name")``, ``x.__dict__["name"]``, ``vars(x)["name"]`` and imports by string.
        """
        match node:
            case ast.Name(id=name):
                return self._aliases.get(name, name)
            case ast.Attribute(value=value, attr=str(last)):
                base = self.dotted(value)
                return None if base is None else _plain(f"{base}.{last}")
            case ast.Call(func=func, args=[first, *rest]):
                called = self.dotted(func)
                if called in _IMPORTERS:
                    return constant_text(first)
                if called == "getattr" and rest and (attribute := constant_text(rest[0])) is not None:
                    base = self.dotted(first)
                    return None if base is None else _plain(f"{base}.{attribute}")
                if called == "vars":
                    base = self.dotted(first)
                    return None if base is None else f"{base}.__dict__"
            case ast.Subscript(value=value, slice=index):
                base, key = self.dotted(value), constant_text(index)
                if base is not None and key is not None:
                    if base.endswith(_DICTS):
                        return _plain(f"{base.rpartition('.')[0]}.{key}")
                    if base == "sys.modules":
                        return key
        return None


_BUILTINS = frozenset(
    {"exit", "quit", "print", "open", "exec", "eval", "Exception", "BaseException", "AssertionError"}
)


def _plain(name: str) -> str:
    return name.removeprefix("builtins.").removeprefix("__builtins__.")


def constant_text(node: ast.AST) -> str | None:
    """The text of a literal, also of one that is put together from literals."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            first, second = constant_text(left), constant_text(right)
            return None if first is None or second is None else first + second
        case ast.JoinedStr(values=values):
            parts = [constant_text(value) for value in values]
            return None if None in parts else "".join(part for part in parts if part is not None)
        case ast.Call(
            func=ast.Attribute(value=separator, attr="join"), args=[ast.List(elts=parts) | ast.Tuple(elts=parts)]
        ):
            between, texts = constant_text(separator), [constant_text(part) for part in parts]
            return (
                None
                if between is None or None in texts
                else between.join(text for text in texts if text is not None)
            )
    return None

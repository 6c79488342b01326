"""Small repair tasks for a coding program: one Python function of a few lines with one bug.

    upturn env validate repair_tasks:kit        (in this folder)
    upturn env play repair_tasks:kit --family operator

The function is in `f.py`; its name says what it must compute. One line is wrong, and one `sed` repairs it. Hidden
inputs decide: they are not in the folder, and what the function returns for them is compared outside its process.

| family | level | the bug | the instruction |
|---|---|---|---|
| operator | 1 | another operator | shows the wrong line |
| seen | 2 | another operator | does not: the file has to be read |
| variable | 2 | one variable in place of another | the file has to be read |
| swapped | 3 | two arguments the wrong way round | the file has to be read |
| off_by_one | 3 | a range one too short | the file has to be read |

Held-out tasks have other shapes of functions (a result that is named before it is returned, an inner function, a
guard) than training tasks, and other pairs of variables; functions of one variable have other variables.
"""

import json
import sys
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from upturn.environments import Solved, program_kit, run_check
from upturn.environments.sandbox import Bubblewrap

FILE = "f.py"
INPUTS = 6
"""Hidden inputs of a task."""
SECONDS = 20.0
"""For all inputs together: a loop without an end has failed."""

LETTERS = "abcdefghijklmnopqrstuvwxyz"
HELD_OUT = 3
"""One pair of variables in this many is held out."""
OPERATORS = {"add": "+", "sub": "-", "mul": "*"}
"""Function → its operator."""
WORDS = {
    "add": ("add", "plus", "total"),
    "sub": ("sub", "minus", "less"),
    "mul": ("mul", "times", "product"),
}
"""Function → names that say what it does."""
RANGES = (("sum_to", "sum(range({}))"), ("list_to", "list(range({}))"), ("upto", "max(range({}))"))
"""Functions of numbers up to and with one."""

SHAPES = {
    "train": (
        "def {name}({args}):\n    return {body}\n",
        "def {name}({args}):\n    # {name}\n    return {body}\n",
        'def {name}({args}):\n    "{name}"\n    return {body}\n',
        "def {name}({args}):\n    result = {body}\n    return result\n",
        "def {name}({args}):\n    if True:\n        return {body}\n",
        "def {name}({args}):\n    for _ in [1]:\n        value = {body}\n    return value\n",
        "{name} = lambda {args}: {body}\n",
        "import math\n\ndef {name}({args}):\n    return {body}\n",
    ),
    "heldout": (
        "def {name}({args}):\n    out = {body}\n    return out\n",
        "def {name}({args}):\n    def go():\n        return {body}\n    return go()\n",
        "def {name}({args}):\n    if {first} is None:\n        return None\n    return {body}\n",
    ),
}

RUNNER = """
import json, os, sys
out = os.dup(1)
os.dup2(2, 1)
asked = json.load(sys.stdin)
names = {}
exec(compile(open(asked["file"]).read(), asked["file"], "exec"), names)
results = [names[asked["name"]](*arguments) for arguments in asked["inputs"]]
os.write(out, json.dumps(results).encode())
"""
"""Calls the function in a process of its own; what it prints goes to standard error."""


class Bug(NamedTuple):
    """A wrong and the right expression; both are functions of the arguments."""

    name: str
    args: tuple[str, ...]
    wrong: str
    right: str
    edit: tuple[str, str]
    """The text to replace, the first one in the file that matches, and its replacement."""


def pair(rng: Random, split: str) -> tuple[str, str]:
    """Two variables of the split."""
    while True:
        a, b = rng.sample(range(len(LETTERS)), 2)
        if ((a + b) % HELD_OUT == 0) == (split == "heldout"):
            return LETTERS[a], LETTERS[b]


def operator(rng: Random, split: str) -> Bug:
    """`a - b` where `a + b` is meant; the operator occurs once in the file."""
    kind = rng.choice(sorted(OPERATORS))
    right = OPERATORS[kind]
    wrong = rng.choice([other for other in OPERATORS.values() if other != right])
    a, b = pair(rng, split)
    return Bug(rng.choice(WORDS[kind]), (a, b), f"{a} {wrong} {b}", f"{a} {right} {b}", (wrong, right))


def variable(rng: Random, split: str) -> Bug:
    """`a + a` where `a + b` is meant."""
    kind = rng.choice(sorted(OPERATORS))
    sign = OPERATORS[kind]
    a, b = pair(rng, split)
    edit = (f"{sign} {a}", f"{sign} {b}")
    return Bug(rng.choice(WORDS[kind]), (a, b), f"{a} {sign} {a}", f"{a} {sign} {b}", edit)


def swapped(rng: Random, split: str) -> Bug:
    """`b - a` where `a - b` is meant."""
    a, b = pair(rng, split)
    return Bug(rng.choice(WORDS["sub"]), (a, b), f"{b} - {a}", f"{a} - {b}", (f"{b} - {a}", f"{a} - {b}"))


def off_by_one(rng: Random, split: str) -> Bug:
    """`range(n)` where `range(n + 1)` is meant: sums and lists up to and with a number."""
    a = rng.choice(LETTERS[split == "heldout" :: 2])
    name, text = rng.choice(RANGES)
    low = rng.choice(["", "1, ", "0, ", "-1, ", "-2, ", "-3, ", "-4, "])
    edit = (f"{a}))", f"{a} + 1))")
    return Bug(name, (a,), text.format(f"{low}{a}"), text.format(f"{low}{a} + 1"), edit)


def draw(bug: Bug, rng: Random, split: str, *, is_shown: bool) -> tuple[str, dict[str, Any], dict[str, str]]:
    """The task: the instruction, what its verifier needs, and the file."""
    shape = rng.choice(SHAPES[split])
    parts = {"name": bug.name, "args": ", ".join(bug.args), "first": bug.args[0]}
    files = {body: shape.format(body=body, **parts) for body in (bug.wrong, bug.right)}
    functions = [eval(f"lambda {parts['args']}: {body}") for body in (bug.wrong, bug.right)]
    inputs: list[list[int]] = []
    while len(inputs) < INPUTS:
        candidate = [rng.randint(2, 9) for _ in bug.args]
        if functions[0](*candidate) != functions[1](*candidate):  # an input that shows the bug
            inputs.append(candidate)
    hidden = {
        "name": bug.name,
        "inputs": inputs,
        "results": [functions[1](*arguments) for arguments in inputs],
        "wrong": files[bug.wrong],
        "fixed": files[bug.right],
        "command": f"sed -i 's/{_escaped(bug.edit[0])}/{bug.edit[1]}/' {FILE}",
    }
    shown = f": return {bug.wrong}" if is_shown else ""
    return f"fix {bug.name} in {FILE}{shown}", hidden, {FILE: files[bug.wrong]}


def _escaped(text: str) -> str:
    """The text as a pattern of sed."""
    return text.replace("*", r"\*")


def evaluate(workspace: Path, expected: dict[str, Any], sandbox: Any) -> bool:
    """Whether the function gives the right result for every hidden input."""
    file = workspace / FILE
    if not file.is_file() or file.read_bytes() == expected["wrong"].encode():
        return False  # the hidden inputs show the bug; no process is needed to see it
    asked = json.dumps({"file": FILE, "name": expected["name"], "inputs": expected["inputs"]})
    command = [sys.executable, "-I", "-S", "-c", RUNNER]
    end = run_check(workspace, command, input=asked, seconds=SECONDS, sandbox=sandbox)
    try:
        return end.exit_code == 0 and json.loads(end.output) == expected["results"]
    except ValueError:
        return False


def solve(expected: dict[str, Any]) -> Solved:
    """The repaired file."""
    return Solved({FILE: expected["fixed"]})


def repair(expected: dict[str, Any]) -> str:
    """The command that repairs the file, as a hint and for demonstrations."""
    return str(expected["command"])


FAMILIES = {
    "operator": lambda rng, split: draw(operator(rng, split), rng, split, is_shown=True),
    "seen": lambda rng, split: draw(operator(rng, split), rng, split, is_shown=False),
    "variable": lambda rng, split: draw(variable(rng, split), rng, split, is_shown=False),
    "swapped": lambda rng, split: draw(swapped(rng, split), rng, split, is_shown=False),
    "off_by_one": lambda rng, split: draw(off_by_one(rng, split), rng, split, is_shown=False),
}
LEVELS = {"operator": 1, "seen": 2, "variable": 2, "swapped": 3, "off_by_one": 3}

kit = program_kit("repair", FAMILIES, evaluate, level=LEVELS, hint=repair, oracle=solve)
"""Runs the function without a sandbox, which takes a quarter of the time. For programs that write a file by `sed`
alone."""
sandboxed_kit = program_kit(
    "repair", FAMILIES, evaluate, level=LEVELS, sandbox=Bubblewrap, hint=repair, oracle=solve
)
"""For programs that may write any code."""

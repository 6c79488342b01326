"""The target ``user``: answers, questions and refusals, and the end of the task. All but ``ask`` end the task."""

from benchmarks.errands.operation import Arguments, Effect, Operation, Parameter
from benchmarks.errands.workspace import Message, Workspace


def _answer(workspace: Workspace, arguments: Arguments) -> Effect:
    return Effect(workspace.with_message(Message("answer", arguments.text("text"))), "answered", is_final=True)


def _ask(workspace: Workspace, arguments: Arguments) -> Effect:
    changed = workspace.with_message(Message("ask", arguments.text("text")))
    return Effect(changed, "the instruction says all there is to know")


def _refuse(workspace: Workspace, arguments: Arguments) -> Effect:
    return Effect(workspace.with_message(Message("refuse", arguments.text("text"))), "refused", is_final=True)


def _finish(workspace: Workspace, _arguments: Arguments) -> Effect:
    return Effect(workspace.with_message(Message("finish")), "done", is_final=True)


_TEXT = Parameter("text")

OPERATIONS = (
    Operation("user", "answer", (_TEXT,), _answer),
    Operation("user", "ask", (_TEXT,), _ask),
    Operation("user", "refuse", (_TEXT,), _refuse),
    Operation("user", "finish", (), _finish),
)

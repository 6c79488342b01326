"""``upturn env``: the group, and the commands that list environments and play their tasks."""

import asyncio
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Annotated

import typer

from upturn.agents import CallableAgent, Job, RolloutRequest, Setting, run_rollouts
from upturn.cli.env.bench import bench
from upturn.cli.env.files import export_workspace, import_workspace
from upturn.cli.env.validate import validate
from upturn.cli.options import AsJson
from upturn.cli.output import emit, print_message, printable
from upturn.config import Limits
from upturn.environments import (
    LONG_TURNS,
    TaskSelection,
    registered_kits,
    resolve_kit,
    tools_of,
    verifiers_of,
    verify,
)
from upturn.records import Evaluation, JsonValue, Observation, Result, Split, Task, Tool, Trajectory, Turn

env_app = typer.Typer()


@env_app.command("list")
def list_environments(
    name: Annotated[str, typer.Argument(help="An environment, or module:factory. Default: all registered.")] = "",
    as_json: AsJson = False,
) -> None:
    """List environments with their verifiers, task families and levels."""
    kits = [resolve_kit(kit) for kit in ([name] if name else registered_kits())]
    described = {kit.name: {"verifier": kit.verifier.name, "levels": dict(kit.families)} for kit in kits}
    emit("env list", [], {"environments": described}, as_json=as_json)


env_app.command("validate")(validate)
env_app.command("export")(export_workspace)
env_app.command("import")(import_workspace)


def tool_help(tools: Sequence[Tool], name: str) -> str:
    """The text of ``help``: names of all tools if ``name`` is empty, else the parameters of an app or a tool."""
    if not tools:
        return "this environment has no description of its calls"
    selected = [tool for tool in tools if name in {"", tool.target, tool.name}]
    if not selected:
        return f"there is no {name!r}; help lists all calls"
    if not name:
        apps = dict.fromkeys(tool.target for tool in tools)
        return "\n".join(
            f"{app}: {', '.join(tool.operation for tool in tools if tool.target == app)}" for app in apps
        )
    return "\n".join(f"{tool.name} {_parameters(tool)}\n    {tool.description}" for tool in selected)


def _parameters(tool: Tool) -> str:
    """``ids=…; folder=…; [kind=bar|line]``, with the choices of a parameter that has some."""
    texts = {name: f"{name}={_choices(schema)}" for name, schema in tool.properties.items()}
    return "; ".join(text if name in tool.required else f"[{text}]" for name, text in texts.items())


def _choices(schema: JsonValue) -> str:
    choices = schema.get("enum") if isinstance(schema, dict) else None
    return "|".join(map(str, choices)) if isinstance(choices, list) else "…"


def _terminal_agent(show: Callable[[str], None], tools: Sequence[Tool]) -> CallableAgent:
    """An agent that reads its actions from standard input."""

    # Async, so that it is called in the main thread, the only one that Ctrl-C interrupts.
    async def act(instruction: str, turns: Sequence[Turn], observation: Observation) -> str:  # noqa: ARG001
        """Shows the observation and reads a line; raises EOFError at the end of the input to end the rollout."""
        show(_observation_text(observation))
        line = ""
        while not line:
            if sys.stdin.isatty():
                sys.stderr.write("> ")
                sys.stderr.flush()
            read = sys.stdin.readline()
            if not read:
                raise EOFError("the input ended before the task did")
            line = read.strip()
            command, _, name = line.partition(" ")
            if command == "help":
                show(tool_help(tools, name.strip()))
                line = ""
        return line

    return CallableAgent(act)


@contextmanager
def _interruptible() -> Iterator[None]:
    """Makes Ctrl-C end a blocking read in an event loop at once, which asyncio's handler does not."""

    def stop(_signal: int, _frame: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _observation_text(observation: Observation) -> str:
    return printable(f"error {observation.code}: {observation.text}" if observation.is_error else observation.text)


@env_app.command("play")
def play_task(
    name: Annotated[str, typer.Argument(help="A registered environment, or module:factory.")],
    *,
    family: Annotated[str | None, typer.Option(help="Task family. Default: any.")] = None,
    level: Annotated[int | None, typer.Option(help="Level of the task. Default: any.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the task.")] = 0,
    heldout: Annotated[
        bool, typer.Option("--heldout", help="Play a held-out task instead of a training task.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Play a task: one call per line of standard input, such as outlook.move ids=m27; folder=archive.

    ``help`` lists all calls, ``help APP`` those of an app, ``help APP.OPERATION`` the parameters of one. At the end
    the verifier's evaluation is shown, and the rubric's if the environment has one.
    """
    kit = resolve_kit(name)
    split: Split = "heldout" if heldout else "train"
    task = next(iter(TaskSelection(family, level, split).stream(kit, seed)))
    show: Callable[[str], None] = print_message if as_json else typer.echo
    show(f"One call per line, at most {LONG_TURNS}; help lists all calls.\n")
    setting = Setting(
        key="play",
        agent=_terminal_agent(show, tools_of(kit)),
        agent_version="person@1",
        model=None,
        limits=Limits(max_turns=LONG_TURNS),
        seed=seed,
        temperature=1.0,
    )
    job = Job(RolloutRequest(task, 0, 0), setting)
    with _interruptible():
        [trajectory] = asyncio.run(run_rollouts([job], kit.environment, slots=1))
    show(_observation_text(trajectory.final_observation))
    if trajectory.outcome == "model_error":  # no line, or one that is not text
        show("\nThe input ended before the task did.")
    evaluation, *further = [verify(verifier, task, trajectory) for verifier in verifiers_of(kit)]
    results = [Result("verdict", evaluation.verdict), *_components(evaluation)]
    results += [
        replace(result, name=f"{other.evaluator} {result.name}")
        for other in further
        for result in _components(other)
    ]
    emit("env play", results, _transcript(task, trajectory, evaluation), as_json=as_json)


def _components(evaluation: Evaluation) -> list[Result]:
    """Score, rewards and costs; missing values are omitted."""
    results = [] if evaluation.score is None else [Result("score", evaluation.score)]
    results += [Result(f"reward {name}", value) for name, value in evaluation.rewards.items() if value is not None]
    return results + [Result(f"cost {name}", value) for name, value in evaluation.costs.items()]


def _transcript(task: Task, trajectory: Trajectory, evaluation: Evaluation) -> dict[str, object]:
    gates = {gate.name: {"passed": gate.is_passed, "detail": gate.detail} for gate in evaluation.gates}
    return {
        "task": task.id,
        "family": task.family,
        "level": task.level,
        "instruction": task.instruction,
        "turns": len(trajectory.turns),
        "outcome": trajectory.outcome,
        "gates": gates,
        "state": trajectory.final_state,
    }


env_app.command("bench")(bench)

"""``upturn env``: environments by name: what they hold, whether they keep their contract, how fast they are."""

import asyncio
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Annotated

import typer

from upturn.agents import Attempt, CallableAgent, Job, Setting, run_rollouts
from upturn.cli.env.bench import bench
from upturn.cli.env.files import export_workspace, import_workspace
from upturn.cli.env.validate import validate
from upturn.cli.output import emit, printable, say
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

env_app = typer.Typer(
    name="env",
    help="Environments: what they hold, whether they keep their contract, try one.",
    no_args_is_help=True,
)

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]
Name = Annotated[str, typer.Argument(help="A registered environment, or module:factory of your own.")]


@env_app.callback()
def _env() -> None:
    """Environments: what they hold, whether they keep their contract, try one."""


@env_app.command("list")
def list_environments(
    name: Annotated[
        str, typer.Argument(help="Only this one; may be module:factory. Default: all registered.")
    ] = "",
    as_json: Json = False,
) -> None:
    """Environments with their verifier, task families and levels."""
    kits = [resolve_kit(each) for each in ([name] if name else registered_kits())]
    described = {kit.name: {"verifier": kit.verifier.name, "levels": dict(kit.families)} for kit in kits}
    emit("env list", [], {"environments": described}, as_json=as_json)


env_app.command("validate")(validate)
env_app.command("export")(export_workspace)
env_app.command("import")(import_workspace)


def told_tools(tools: Sequence[Tool], asked: str) -> str:
    """What ``help`` answers: names of all tools (``asked`` is empty), or how those of an app, or one, are made."""
    if not tools:
        return "this environment does not say what can be called in it"
    found = [each for each in tools if asked in {"", each.target, each.name}]
    if not found:
        return f"there is no {asked!r}; help lists what can be called"
    if not asked:
        apps = dict.fromkeys(each.target for each in tools)
        return "\n".join(
            f"{app}: {', '.join(each.operation for each in tools if each.target == app)}" for app in apps
        )
    return "\n".join(f"{each.name} {_parameters(each)}\n    {each.description}" for each in found)


def _parameters(tool: Tool) -> str:
    """``ids=…; folder=…; [kind=bar|line]``, with what a parameter may be where that is a few words."""
    texts = (f"{name}={_meaning(schema)}" for name, schema in tool.properties.items())
    return "; ".join(
        text if name in tool.required else f"[{text}]" for name, text in zip(tool.properties, texts, strict=True)
    )


def _meaning(schema: JsonValue) -> str:
    choices = schema.get("enum") if isinstance(schema, dict) else None
    return "|".join(map(str, choices)) if isinstance(choices, list) else "…"


def _person(tell: Callable[[str], None], tools: Sequence[Tool]) -> CallableAgent:
    """Whoever sits at the terminal, or what is piped in, as an agent."""

    # Async, so that it is called in the main thread: only there does Ctrl-C reach it.
    async def answer(instruction: str, turns: Sequence[Turn], observation: Observation) -> str:  # noqa: ARG001
        """Shows the observation and reads a line; EOFError when there is none, which ends the attempt."""
        tell(_shown(observation))
        line = ""
        while not line:
            if sys.stdin.isatty():
                sys.stderr.write("> ")
                sys.stderr.flush()
            read = sys.stdin.readline()
            if not read:
                raise EOFError("the input ended before the task did")
            line = read.strip()
            word, _, asked = line.partition(" ")
            if word == "help":
                tell(told_tools(tools, asked.strip()))
                line = ""
        return line

    return CallableAgent(answer)


@contextmanager
def _interruptible() -> Iterator[None]:
    """Lets Ctrl-C end a read in an event loop at once: the loop's own way is to wait for the read first."""

    def stop(_signal: int, _frame: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _shown(observation: Observation) -> str:
    return printable(f"error {observation.code}: {observation.text}" if observation.is_error else observation.text)


@env_app.command("play")
def play_task(
    name: Name,
    *,
    family: Annotated[str | None, typer.Option(help="Which kind of task. Default: any.")] = None,
    level: Annotated[int | None, typer.Option(help="How hard a task. Default: any.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Another seed is another task.")] = 0,
    heldout: Annotated[bool, typer.Option("--heldout", help="A held-out task instead of a training task.")] = False,
    as_json: Json = False,
) -> None:
    """Do a task yourself: one call a line, such as outlook.move ids=m27; folder=archive. The input may be piped in.

    ``help`` lists what there is, ``help APP`` an app's operations, ``help APP.OPERATION`` how one is called.
    In the end the verifier and, where the environment has one, its finer rubric are shown component by component.
    """
    kit = resolve_kit(name)
    split: Split = "heldout" if heldout else "train"
    task = next(iter(TaskSelection(family, level, split).stream(kit, seed)))
    tell: Callable[[str], None] = say if as_json else typer.echo
    tell(f"One call a line, {LONG_TURNS} at most; help lists what can be called.\n")
    setting = Setting(
        key="play",
        agent=_person(tell, tools_of(kit)),
        agent_version="person@1",
        model=None,
        limits=Limits(max_turns=LONG_TURNS),
        seed=seed,
        temperature=1.0,
    )
    job = Job(Attempt(task, 0, 0), setting)
    with _interruptible():
        [trajectory] = asyncio.run(run_rollouts([job], kit.environment, slots=1))
    tell(_shown(trajectory.final_observation))
    if trajectory.outcome == "model_error":  # of a person: no line, or none that is text
        tell("\nThe input ended before the task did.")
    evaluation, *further = [verify(each, task, trajectory) for each in verifiers_of(kit)]
    results = [Result("verdict", evaluation.verdict), *_components(evaluation)]
    results += [
        replace(each, name=f"{other.evaluator} {each.name}") for other in further for each in _components(other)
    ]
    emit("env play", results, _transcript(task, trajectory, evaluation), as_json=as_json)


def _components(evaluation: Evaluation) -> list[Result]:
    """The score and everything that was judged beside the verdict; what is missing is left out."""
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

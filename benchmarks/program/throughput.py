"""Rollouts a minute: programs in Upturn, and the same programs with LiteLLM over ``generate`` of transformers.

Both sides run the same functions at the same time with the same model. Answers have the same lengths, but for end
tokens, which random models seldom draw.
"""

import asyncio
import itertools
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from benchmarks.comparison import result, spread
from benchmarks.gateway.processes import Server, litellm_gateway, python_server
from benchmarks.measurement import Measurement
from benchmarks.program.chat_models import load_measured
from benchmarks.program.plan import Plan, load
from benchmarks.program.talk import KIT, Talk, attempts, setting
from upturn.agents import Attempt
from upturn.errors import MeasurementError
from upturn.models.engine import LocalEngine
from upturn.records import Task


def measure_throughput(plan: Plan) -> Measurement:
    """The ratio, with LiteLLM where its executable is given."""
    talk = Talk(min(4, plan.talk.turns), min(24, plan.talk.max_tokens))
    tasks = list(itertools.islice(KIT.tasks(seed=2, split="train", families=["talk"]), plan.parallel))
    local, length = load_measured("qwen2_5", plan.model), talk.limits.max_tokens
    assert length is not None
    engine = LocalEngine(local.model, slots=plan.parallel, max_length=length, tokenizer=local.tokenizer)
    setup = setting(local, engine, talk.program, talk.limits, parallel=plan.parallel, key="throughput")
    ours, theirs = list[float](), list[float]()
    with _serving(plan) as server:
        for repetition in range(plan.repetitions):
            plan.log(f"throughput: repetition {repetition + 1} of {plan.repetitions}")
            engine.refresh()
            started = time.perf_counter()
            made = attempts(setup, tasks, parallel=plan.parallel)
            ours.append(60.0 * len(tasks) / (time.perf_counter() - started))
            if any(trajectory.outcome != "finished" for trajectory in made):
                raise MeasurementError(f"an attempt failed: {made[0].error or made[0].outcome}")
            theirs.append(60.0 * len(tasks) / asyncio.run(_seconds(talk, tasks, server)))
    ratios = [mine / other for mine, other in zip(ours, theirs, strict=True)]
    name = "bare_server" if plan.litellm is None else "litellm"
    return Measurement(
        (
            result(f"throughput_vs_{name}", spread(ratios), "x", plan.bar(3.0)),
            result("rollouts", spread(ours), "a minute"),
            result(f"rollouts_{name}", spread(theirs), "a minute"),
        ),
        {
            "turns": talk.turns,
            "max_tokens": talk.max_tokens,
            "has_litellm": plan.litellm is not None,
            "load": load(),
        },
    )


async def _seconds(talk: Talk, tasks: list[Task], server: Server) -> float:
    """Of one conversation for each task, all at the same time, with another server."""
    url = server.url.removesuffix("/chat/completions")
    started = time.perf_counter()
    work = (
        talk.program(Attempt("", task.instruction, task.id, task.family, [], "", url, "", "none", "default"))
        for task in tasks
    )
    await asyncio.gather(*work)
    return time.perf_counter() - started


@contextmanager
def _serving(plan: Plan) -> Iterator[Server]:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="upturn-throughput-")))
        sizes = (plan.threads, plan.model.width, plan.model.layers)
        server = stack.enter_context(
            python_server(folder, "generate", "benchmarks.program.slow_server", *map(str, sizes))
        )
        if plan.litellm is not None:
            server = stack.enter_context(litellm_gateway(folder, server, plan.litellm))
        yield server

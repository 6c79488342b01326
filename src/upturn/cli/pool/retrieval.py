"""``upturn pool similar``: what was done well that is like a text or a task."""

from typing import Annotated

import typer

from upturn.cli.options import POOL_PATH, AsJson, Families, PoolPath, Tenant
from upturn.cli.output import emit, show_table
from upturn.pool import Pool, Question, Similar, SuccessIndex, task_question
from upturn.pool.privacy import anonymise
from upturn.records import JsonValue, Result, Task

_SHOWN_CHARACTERS = 70


def similar(  # noqa: PLR0913  a command's parameters are its options
    text: Annotated[str | None, typer.Argument(help="What similar instructions are sought for.")] = None,
    *,
    task: Annotated[
        str | None, typer.Option("--task", help="Id of a stored task instead of a text: what was known before it.")
    ] = None,
    k: Annotated[int, typer.Option("--k", min=1, help="Number of successes.")] = 5,
    family: Families = None,
    pool: PoolPath = POOL_PATH,
    tenant: Tenant = "default",
    as_json: AsJson = False,
) -> None:
    """Show the successes at the most similar instructions of the tenant; `upturn pool show` shows one.

    Held-out tasks are never shown; of --task neither the task itself, nor an equal instruction, nor what was stored
    later. Instructions are anonymised. Exits with 1 if there is none.
    """
    if (text is None) == (task is None):
        raise typer.BadParameter("name either a TEXT or a --task")
    with Pool.open(pool, read_only=True) as opened:
        question = Question(text or "") if task is None else task_question(opened, task, tenant=tenant)
        index = SuccessIndex(opened, tenant=tenant, families=tuple(family or ()))
        found = [_anonymous(item) for item in index.search(question, k)]
    results = [Result("successes", float(len(found))), Result("instructions", float(len(index)))]
    details: dict[str, JsonValue] = {"tenant": tenant, "embedder": index.embedder.name}
    if as_json:
        details["similar"] = [item._asdict() for item in found]
    emit("pool similar", results, details, as_json=as_json)
    if found and not as_json:
        rows = [
            (
                f"{item.similarity:.3f}",
                item.trajectory_id,
                item.family,
                f"{item.score:.3g}",
                _short(item.instruction),
            )
            for item in found
        ]
        show_table("similar successes", ("similarity", "trajectory", "family", "score", "instruction"), rows)
    if not found:
        raise typer.Exit(1)


def _anonymous(item: Similar) -> Similar:
    task = Task(item.task_id, item.instruction, item.family, "")
    return item._replace(instruction=anonymise(task).instruction)


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _SHOWN_CHARACTERS else line[: _SHOWN_CHARACTERS - 1] + "…"

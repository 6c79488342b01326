"""``upturn pool similar``: what was done well that is like a text or a task."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from upturn.cli.options import POOL_PATH, AsJson, Families, PoolPath, Tenant, read_config
from upturn.cli.output import emit, show_table
from upturn.pool import MakeEmbedder, Pool, Question, Similar, SuccessIndex, by_words, task_question
from upturn.pool.privacy import anonymise
from upturn.records import JsonValue, Result, Task

if TYPE_CHECKING:
    from upturn.config import Config

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
    config: Annotated[
        Path | None, typer.Option("--config", help="Configuration with pool.embeddings, to compare by these.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show the successes at the most similar instructions of the tenant; `upturn pool show` shows one.

    Held-out tasks are never shown; of --task neither the task itself, nor an equal instruction, nor what was stored
    later. Instructions are anonymised. Exits with 1 if there is none.
    """
    if (text is None) == (task is None):
        raise typer.BadParameter("name either a TEXT or a --task")
    read = None if config is None else read_config(config)
    with Pool.open(pool, read_only=read is None, beside=read is not None) as opened:
        question = Question(text or "") if task is None else task_question(opened, task, tenant=tenant)
        embedder = by_words if read is None else _embedder(read, config, opened)
        index = SuccessIndex(opened, tenant=tenant, families=tuple(family or ()), embedder=embedder)
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


def _embedder(config: "Config", path: Path | None, pool: Pool) -> MakeEmbedder:
    """What makes the embedder by the configuration; raises BadParameter for one without a server of embeddings."""
    from upturn.config import api_keys
    from upturn.loop import embedder_of

    if config.pool.embeddings is None:
        raise typer.BadParameter(f"--config {str(path)!r} has no effect: it has no [pool.embeddings]; omit it")
    return embedder_of(config.pool, api_keys(config, os.environ, path), pool)


def _anonymous(item: Similar) -> Similar:
    task = Task(item.task_id, item.instruction, item.family, "")
    return item._replace(instruction=anonymise(task).instruction)


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _SHOWN_CHARACTERS else line[: _SHOWN_CHARACTERS - 1] + "…"

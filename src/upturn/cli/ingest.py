"""``upturn ingest``: imports recorded conversations, or feedback on stored ones, into a pool."""

import gc
from pathlib import Path
from typing import Annotated

import typer

from upturn.cli.options import POOL_PATH, AsJson, PoolPath
from upturn.cli.output import emit, print_message, progress, resume_hint
from upturn.errors import IngestError
from upturn.pool import IngestOptions, Pool, check_source, ingest_feedback, location_of, pool_exists
from upturn.pool import ingest as ingest_conversations
from upturn.records import Result

_MAX_LINES_SHOWN = 20
"""Maximum number of quarantined lines to print; ``--json`` prints all."""


def ingest(  # noqa: PLR0913 - a command's parameters are its options
    file: Annotated[Path, typer.Argument(help="File with recorded conversations or feedback.")],
    *,
    file_format: Annotated[
        str,
        typer.Option(
            "--format",
            help="chat, tau-bench, otlp, inspect, langfuse, phoenix, verifiers, openai-evals, preference, outcomes "
            "or feedback; auto: detected.",
        ),
    ] = "auto",
    pool: PoolPath = POOL_PATH,
    tenant: Annotated[str, typer.Option("--tenant", help="Tenant of the imported records.")] = "default",
    family: Annotated[
        str | None, typer.Option("--family", help="Task family of conversations that name none.")
    ] = None,
    agent: Annotated[
        str | None, typer.Option("--agent", help="Model of conversations that name none. Default: unknown.")
    ] = None,
    anonymise: Annotated[
        bool, typer.Option("--anonymise", help="Replace personal data and secrets by masks before they are stored.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Import recorded conversations, or feedback on stored ones, into a pool.

    An import of conversations creates the pool if it does not exist. Exits with 1 if lines were quarantined.
    """
    if not file.is_file():
        raise IngestError(f"there is no file {str(file)!r}; name one that exists")
    is_feedback = file_format == "feedback"
    options = IngestOptions(file_format, tenant, family, agent, anonymise)
    if is_feedback:
        _check_feedback_options(options, pool)
    else:
        check_source(file, options)  # before a pool is created
    details: dict[str, object] = {"file": str(file), "pool": str(location_of(pool)), "tenant": tenant}
    with Pool.open(pool) as opened, resume_hint("the same command"):
        if is_feedback:
            _, lines, added, known, quarantined = ingest_feedback(opened, file, tenant=tenant)
            bad = len(quarantined)
        else:
            # What is made here has no cycles; looking for them took a sixth of the time.
            gc.freeze()
            gc.set_threshold(100_000)
            with progress(f"importing {file.name} (bytes)", file.stat().st_size) as ticker:
                report = ingest_conversations(opened, file, options, ticker.advance)
            _, file_format, lines, added, known, quarantined, bad, keys, details["is_repeated"] = report
            details["format"] = file_format
            details["unknown_keys"] = dict(keys)
    unit = "feedback" if is_feedback else "trajectories"
    results = [
        Result("lines", float(lines)),
        Result("added", float(added), unit),
        Result("known", float(known), unit),
        Result("quarantined", float(bad), "lines", bar="<= 0", holds=bad == 0),
    ]
    shown = quarantined if as_json else quarantined[:_MAX_LINES_SHOWN]
    details["quarantine"] = [{"line": line.line, "reason": line.reason} for line in shown]
    emit("ingest", results, details, as_json=as_json)
    if bad:
        rest = "the others are in the pool" if bad < lines else f"is this a {file_format} file?"
        print_message(f"{bad} of {lines} lines were quarantined; {rest}")
        if not is_feedback:
            print_message(
                f"to see and repair them: upturn pool quarantine list --pool {location_of(pool)} --tenant {tenant}"
            )
        raise typer.Exit(1)


def _check_feedback_options(options: IngestOptions, pool: str) -> None:
    """Raises IngestError for options without effect on feedback, or if there is no pool."""
    values = (("--family", options.family), ("--agent", options.agent), ("--anonymise", options.is_anonymised))
    useless = [name for name, value in values if value not in (None, False)]
    if useless:
        raise IngestError(
            f"{' and '.join(useless)} has no effect with --format feedback, which refers to stored records; omit it"
        )
    if not pool_exists(pool):
        raise IngestError(
            f"there is no pool {str(location_of(pool))!r} that feedback could refer to; name one with --pool"
        )

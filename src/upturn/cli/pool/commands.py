"""``upturn pool``: the group."""

import typer

from upturn.cli.pool.batches import batch, snapshot
from upturn.cli.pool.card import card
from upturn.cli.pool.episodes import seal, tasks
from upturn.cli.pool.exports import copy, export_records
from upturn.cli.pool.imports import import_records, log
from upturn.cli.pool.lineage import show_lineage
from upturn.cli.pool.move import move
from upturn.cli.pool.privacy import forget, policy, report, shred
from upturn.cli.pool.pruning import prune_old
from upturn.cli.pool.quarantine import quarantine_app
from upturn.cli.pool.readiness import calls, ready
from upturn.cli.pool.report import write_page
from upturn.cli.pool.restoring import restore, try_restore
from upturn.cli.pool.retrieval import similar
from upturn.cli.pool.statistics import drift, show, stats
from upturn.cli.pool.tags import tag
from upturn.cli.pool.validation import validate

pool_app = typer.Typer()
pool_app.command("stats")(stats)
pool_app.command("drift")(drift)
pool_app.command("ready")(ready)
pool_app.command("calls")(calls)
pool_app.command("log")(log)
pool_app.command("batch")(batch)
pool_app.command("snapshot")(snapshot)
pool_app.command("copy")(copy)
pool_app.command("move")(move)
pool_app.command("seal")(seal)
pool_app.command("tasks")(tasks)
pool_app.command("validate")(validate)
pool_app.command("report")(write_page)
pool_app.command("show")(show)
pool_app.command("tag")(tag)
pool_app.command("similar")(similar)
pool_app.command("export")(export_records)
pool_app.add_typer(quarantine_app, name="quarantine", help="Lines of imported files that could not be used.")
pool_app.command("import")(import_records)
pool_app.command("policy")(policy)
pool_app.command("shred")(shred)
pool_app.command("forget")(forget)
pool_app.command("privacy")(report)
pool_app.command("card")(card)
pool_app.command("lineage")(show_lineage)
pool_app.command("restore")(restore)
pool_app.command("drill")(try_restore)
pool_app.command("prune")(prune_old)

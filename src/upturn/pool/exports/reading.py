"""Import of a file that ``upturn pool export`` wrote.

The records are stored as they were, in their order and with their times, so that reads, snapshots and digests are
the same. A file that was changed is refused whole. Of a file that is cut off, the complete lines are stored and the
place of the cut is quarantined. A line is quarantined if it cannot be read, belongs to another tenant, or
contradicts a stored record.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from itertools import groupby, islice
from typing import NamedTuple

from sqlalchemy import Table, select

from upturn.errors import IngestError, StoreConflictError
from upturn.pool import schema
from upturn.pool.access import current_policy
from upturn.pool.batch import store_page
from upturn.pool.exports.export_file import ExportFile, ReadLine
from upturn.pool.exports.form import ExportHeader
from upturn.pool.imported import Imported, Quarantined
from upturn.pool.ingestion import earlier_report, printable
from upturn.pool.row import digest
from upturn.pool.store import Pool

_LINES_PER_PAGE = 200


class ImportReport(NamedTuple):
    """The result of importing an export."""

    header: ExportHeader
    added: Counter[str]
    """Number of new records by table."""
    known: int
    """Number of records that were stored already."""
    quarantined: tuple[Quarantined, ...]
    is_repeated: bool
    """True = this file was imported before; ``quarantined`` is from that import."""


def import_export(
    pool: Pool, source: ExportFile, on_lines: Callable[[int], object] = lambda _: None
) -> ImportReport:
    """Stores the records of the file; importing it again adds nothing.

    ``on_lines`` is called with the number of lines of each stored page.

    Raises IngestError for a file that cannot be read or was changed, and for a raw export of a tenant that
    anonymises before anything is stored; then nothing is stored.
    """
    header = source.header
    if not header.is_anonymised and current_policy(pool.engine, tenant=header.tenant).anonymise == "write":
        raise IngestError(
            f"{printable(source.path)!r} is a raw export, but tenant {header.tenant!r} anonymises before anything "
            "is stored (upturn pool policy); export it without --raw"
        )
    key = digest(source.check_content().digest, "upturn")
    earlier = earlier_report(pool, source.path, header.tenant, key)
    if earlier is not None:
        return ImportReport(header, Counter(), earlier.known, earlier.quarantined, True)
    added: Counter[str] = Counter()
    lines = 0
    quarantined: list[Quarantined] = []
    read = source.lines()
    while page := list(islice(read, _LINES_PER_PAGE)):
        lines += len(page)
        quarantined += (line for line in page if isinstance(line, Quarantined))
        good = [line for line in page if isinstance(line, ReadLine)]
        for table, new, bad in _store(pool, header.tenant, good):
            added[table] += new
            quarantined += bad
        on_lines(len(page))
    known = lines - len(quarantined) - added.total()
    ordered = tuple(sorted(quarantined))
    pool.append(
        imported=Imported(header.tenant, key, printable(source.path), lines, known + added.total(), ordered)
    )
    return ImportReport(header, added, known, ordered, False)


def _store(pool: Pool, tenant: str, page: Sequence[ReadLine]) -> Iterator[tuple[str, int, list[Quarantined]]]:
    """Stores a page in its order; yields (kind, new records, bad lines) of each run of records of one kind."""
    pending: list[tuple[list[ReadLine], Future[int]]] = []
    for table, lines in groupby(page, key=lambda read: read.row.table):
        run = list(lines)
        foreign = _foreign_lines(pool, tenant, table, run)
        yield table.name, 0, foreign
        bad = {line.line for line in foreign}
        accepted = [read for read in run if read.line not in bad]
        if accepted:  # what is submitted together shares a transaction, in this order
            pending.append((accepted, pool.submit(*(read.row for read in accepted))))
    for run, future in pending:
        name = run[0].row.table.name
        try:
            yield name, future.result(), []
        except StoreConflictError:
            rows = [(read.line, read.row) for read in run]
            yield name, *store_page(lambda group: pool.submit(*group).result(), rows)


def _foreign_lines(pool: Pool, tenant: str, table: Table, run: Sequence[ReadLine]) -> list[Quarantined]:
    """Returns the lines whose task or trajectory is stored for another tenant, which they would inherit."""
    references = {
        schema.trajectories: (schema.tasks, "task_id"),
        schema.evaluations: (schema.trajectories, "trajectory_id"),
    }
    if table not in references:
        return []
    owners, reference = references[table]
    wanted = {str(read.row.values[reference]) for read in run}
    query = select(owners.c.id).where(owners.c.id.in_(wanted), owners.c.tenant != tenant)
    with pool.engine.connect() as connection:
        foreign = set(connection.execute(query).scalars())
    return [
        Quarantined(
            read.line, f"{reference} {read.row.values[reference]!r} belongs to another tenant than {tenant!r}"
        )
        for read in run
        if read.row.values[reference] in foreign
    ]

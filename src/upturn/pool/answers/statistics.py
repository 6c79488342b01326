"""Statistics of a tenant's evidence (``get_statistics``)."""

from typing import cast

from upturn.pool.answers.answer import Answer
from upturn.pool.quality import coverage
from upturn.pool.reader import PoolReader
from upturn.pool.selection import ALL_TENANTS, EVERYTHING, Scope, Selection
from upturn.pool.statistics import counts, statistics, tag_statistics
from upturn.records import JsonValue, Result


def statistics_answer(pool: PoolReader, *, tenant: Scope, selection: Selection = EVERYTHING) -> Answer:
    """Returns statistics of the selected trajectories; counts of records and coverage are of all of them."""
    summary = statistics(pool, tenant=tenant, selection=selection)
    covered = [
        Result(f"coverage_{name}", share.value, n=share.whole)
        for name, share in coverage(pool, tenant=tenant)._asdict().items()
        if share.whole
    ]
    tags = tag_statistics(pool, tenant=tenant, selection=selection)
    details: dict[str, JsonValue] = {
        "tenant": "all" if tenant is ALL_TENANTS else tenant,
        "records": cast(JsonValue, counts(pool, tenant=tenant)._asdict()),
        "agents": [cast(JsonValue, entry._asdict()) for entry in summary.agents],
        "families": [cast(JsonValue, entry._asdict()) for entry in summary.families],
        **({"tags": [cast(JsonValue, entry._asdict()) for entry in tags]} if tags else {}),
        "success_histograms": {
            str(size): {str(successes): groups for successes, groups in counted.items()}
            for size, counted in summary.histograms.items()
        },
    }
    return Answer([*summary.results(), *covered], details)

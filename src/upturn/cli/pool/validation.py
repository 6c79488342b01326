"""``upturn pool validate``: integrity, digests and quality gates."""

from collections import Counter

import typer

from upturn.cli.options import POOL_PATH, AllTenants, AsJson, PoolPath, Tenant
from upturn.cli.output import emit, print_message
from upturn.pool import (
    ALL_TENANTS,
    Pool,
    inspect,
    integrity_problems,
    ledger_problems,
)
from upturn.records import Result

_MAX_FAILURES_SHOWN = 20


def validate(
    *,
    pool: PoolPath = POOL_PATH,
    tenant: Tenant = "default",
    all_tenants: AllTenants = False,
    as_json: AsJson = False,
) -> None:
    """Check the file's integrity, its records against their digests, and every trajectory's quality gates.

    Exits with 1 if the file is damaged, or a record was changed or deleted after it was stored.
    """
    failed: Counter[str] = Counter()
    first_failures: list[dict[str, str]] = []
    points = clean = 0
    with Pool.open(pool, read_only=True) as opened:
        damage = integrity_problems(opened.engine)
        changes = [] if damage else [str(problem) for problem in ledger_problems(opened.engine)]
        scope = ALL_TENANTS if all_tenants else tenant
        for experience in () if damage or changes else opened.experiences(tenant=scope):
            inspected = inspect(experience)
            gates = [gate for gate in inspected.gates if not gate.is_passed]
            points += 1
            clean += not gates
            failed.update(gate.name for gate in gates)
            if gates and len(first_failures) < _MAX_FAILURES_SHOWN:
                first_failures.append({"trajectory": inspected.trajectory_id, gates[0].name: gates[0].detail})
    results = [
        Result("integrity_problems", float(len(damage)), bar="<= 0", holds=not damage),
        Result("changed_records", float(len(changes)), bar="<= 0", holds=not changes),
        Result("points", float(points)),
        Result("clean_points", float(clean)),
        *([Result("clean_share", clean / points, n=points)] if points else []),
    ]
    details = {
        "failed_gates": dict(sorted(failed.items())),
        "first_failures": first_failures,
        "integrity": damage,
        "changes": changes[:_MAX_FAILURES_SHOWN],
    }
    emit("pool validate", results, details, as_json=as_json)
    if damage:
        print_message("the file is damaged; restore a backup, or export what can still be read")
    if changes:
        print_message("records were changed or deleted after they were stored; restore a backup of the file")
    if damage or changes:
        raise typer.Exit(1)

"""``upturn audit``: verifies a pool's audit log, proves its entries, and writes signed checkpoints."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from upturn.cli.options import POOL_PATH, AsJson, PoolPath
from upturn.cli.output import emit, print_message
from upturn.errors import StoreError
from upturn.pool import Pool
from upturn.pool.audit import Frontier, audit_problems, prove, read_proof
from upturn.records import Result

if TYPE_CHECKING:
    from upturn.pool.audit import Proof
    from upturn.pool.checkpoints import Checkpoint

audit_app = typer.Typer()

_MOST_SHOWN = 50
"""Problems that are printed; all are counted."""

Folder = Annotated[
    Path | None,
    typer.Option("--checkpoints", help="Folder of signed checkpoints (setting pool.checkpoints.folder)."),
]
Key = Annotated[
    Path | None,
    typer.Option("--key", help="Public key of the checkpoints. Default: key.pub in their folder."),
]


@audit_app.command("verify")
def verify(*, pool: PoolPath = POOL_PATH, folder: Folder = None, key: Key = None, as_json: AsJson = False) -> None:
    """Compute the log's tree anew, compare every record with its entry, and both with signed checkpoints.

    Exits with 1 if anything was changed, deleted, moved or cut off, and names it.
    """
    from upturn.pool.checkpoints import checkpoint_problems

    checkpoints = _checkpoints(folder, key)
    tree = Frontier()
    roots = dict.fromkeys((checkpoint.tree.size for checkpoint in checkpoints if checkpoint.tree), tree.root())
    with Pool.open(pool, read_only=True) as opened, opened.engine.connect() as connection:
        problems = list(audit_problems(connection, tree, roots))
    problems += checkpoint_problems(checkpoints, roots, tree.size)
    results = [
        Result("entries", float(tree.size)),
        *([Result("checkpoints", float(len(checkpoints)))] if folder else []),
        Result("problems", float(len(problems)), bar="<= 0", holds=not problems),
    ]
    details = {
        "root": tree.root().hex(),
        "problems": [
            {"kind": one.kind, "id": one.record_id, "entry": one.position, "what": one.what}
            if as_json
            else str(one)
            for one in problems[:_MOST_SHOWN]
        ],
    }
    emit("audit verify", results, details, as_json=as_json)
    if problems:
        print_message(
            "the pool is not what was written; restore a backup and compare it with `upturn audit verify`"
        )
        raise typer.Exit(1)


@audit_app.command("prove")
def prove_entry(
    record_id: Annotated[str, typer.Argument(metavar="ID", help="Id of a record, or of what an act was on.")],
    *,
    pool: PoolPath = POOL_PATH,
    size: Annotated[
        int | None, typer.Option(min=1, help="Prove it in the tree of the first entries, such as of a checkpoint.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Print proofs that the audit log has a record: one for each of its entries. `check` verifies them offline."""
    with Pool.open(pool, read_only=True) as opened:
        proofs = prove(opened.engine, record_id, size=size)
    results = [Result("proofs", float(len(proofs)))]
    emit("audit prove", results, {"proofs": [proof.to_fields() for proof in proofs]}, as_json=as_json)


@audit_app.command("check")
def check(
    proof: Annotated[Path, typer.Argument(help="File with what `prove --json` printed.")],
    *,
    folder: Folder = None,
    key: Key = None,
    root: Annotated[str, typer.Option("--root", help="Root that the tree must have, in hexadecimal.")] = "",
    as_json: AsJson = False,
) -> None:
    """Verify proofs without the pool. A proof shows that its entry is in the tree that it names; name the root,
    or checkpoints with that tree, to trust the tree. Exits with 1 if a proof is wrong.
    """
    try:
        proofs = read_proof(proof.read_text("utf-8"))
    except (OSError, UnicodeDecodeError) as exc:
        raise StoreError(f"the proof {str(proof)!r} cannot be read: {exc}") from exc
    checkpoints = _checkpoints(folder, key)
    faults = [(one, _fault(one, checkpoints if folder else None, root)) for one in proofs]
    wrong = [fault for _, fault in faults if fault]
    results = [
        Result("proofs", float(len(proofs))),
        Result("wrong", float(len(wrong)), bar="<= 0", holds=not wrong),
    ]
    details = {
        "proofs": [
            {
                "kind": one.entry.kind,
                "id": one.entry.record_id,
                "entry": one.entry.position,
                "fault": fault or "none",
            }
            for one, fault in faults
        ]
    }
    emit("audit check", results, details, as_json=as_json)
    if wrong:
        raise typer.Exit(1)


@audit_app.command("checkpoint")
def checkpoint(
    *,
    pool: PoolPath = POOL_PATH,
    folder: Annotated[
        Path, typer.Option("--checkpoints", help="Folder; made with a new key if there is none.")
    ] = Path("audit"),
    as_json: AsJson = False,
) -> None:
    """Sign size and root of the audit log now, and write them into a folder outside the database."""
    from upturn.pool.checkpoints import KEY_FILE, PUBLIC_KEY_FILE, write_checkpoint

    is_first = not (folder / KEY_FILE).exists()
    tree = write_checkpoint(pool, folder)
    details = {"root": tree.root.hex(), "folder": str(folder), "public_key": str(folder / PUBLIC_KEY_FILE)}
    emit("audit checkpoint", [Result("entries", float(tree.size))], details, as_json=as_json)
    if is_first:
        print_message(f"made the key {str(folder / KEY_FILE)!r}; keep a copy of {PUBLIC_KEY_FILE} elsewhere")


def _checkpoints(folder: Path | None, key: Path | None) -> list["Checkpoint"]:
    """Returns the checkpoints in a folder; none without one."""
    from upturn.pool.checkpoints import PUBLIC_KEY_FILE, read_checkpoints, read_public_key

    if folder is None:
        return []
    return read_checkpoints(folder, read_public_key(key or folder / PUBLIC_KEY_FILE))


def _fault(proof: "Proof", checkpoints: list["Checkpoint"] | None, root: str) -> str:
    """Returns what is wrong with a proof; empty = nothing. ``checkpoints`` None = it need not be in one."""
    if not proof.holds():
        return "the path does not lead from the entry to the root"
    if root and proof.tree.root.hex() != root.strip().lower():
        return "the tree has another root than --root"
    if checkpoints is not None and proof.tree not in [one.tree for one in checkpoints]:
        return "no signed checkpoint has this tree; prove it with --size of a checkpoint"
    return ""

"""``upturn pool tag``: tags of tasks."""

from typing import Annotated

import typer

from upturn.cli.options import POOL_PATH, AsJson, PoolPath, Tenant, Why
from upturn.cli.output import emit, show_table
from upturn.pool import TAG_RULE, Pool, change_tags, is_tag, tags_of, tasks_of
from upturn.records import JsonValue, Result

Tags = Annotated[
    list[str] | None, typer.Option("--tag", help="Only of tasks with this tag; repeatable, then with all of them.")
]


def checked_tags(tags: list[str] | None) -> tuple[str, ...]:
    """Returns the tags of an option; raises BadParameter for a name that no tag can have."""
    for name in tags or ():
        if not is_tag(name):
            raise typer.BadParameter(f"--tag {name!r:.100} is no tag: it has {TAG_RULE}")
    return tuple(tags or ())


def tag(  # noqa: PLR0913  a command's parameters are its options
    ids: Annotated[list[str], typer.Argument(help="Ids of tasks, or of trajectories or decisions at them.")],
    *,
    add: Annotated[list[str] | None, typer.Option("--add", help="Tag to set; repeatable.")] = None,
    remove: Annotated[list[str] | None, typer.Option("--remove", help="Tag to remove; repeatable.")] = None,
    pool: PoolPath = POOL_PATH,
    tenant: Tenant = "default",
    why: Why = "",
    as_json: AsJson = False,
) -> None:
    """Set and remove tags of tasks, or show them without --add and --remove. Each change is an appended record."""
    if why and not (add or remove):
        raise typer.BadParameter("--why has no effect without --add or --remove")
    is_change = bool(add or remove)
    with Pool.open(pool, read_only=not is_change, beside=is_change) as opened:
        changes = (
            change_tags(opened, ids, add=add or (), remove=remove or (), tenant=tenant, comment=why)
            if is_change
            else []
        )
        task_ids = tasks_of(opened, ids, tenant=tenant)
        tags = tags_of(opened, task_ids, tenant=tenant)
    results = [
        Result("tasks", float(len(task_ids))),
        Result("added", float(sum(change.is_set for change in changes)), "tags"),
        Result("removed", float(sum(not change.is_set for change in changes)), "tags"),
    ]
    listed: dict[str, JsonValue] = {task_id: [*tags.get(task_id, ())] for task_id in task_ids}
    emit("pool tag", results, {"tags": listed} if as_json else {}, as_json=as_json)
    if not as_json:
        rows = [(task_id, ", ".join(tags.get(task_id, ())) or "none") for task_id in task_ids]
        show_table("tags", ("task", "tags"), rows)

"""Commands that a launcher may start several times, to train one model: the first process does the work."""

from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from upturn.training.distributed import World


def leading_world() -> "World | None":
    """The processes of this command, in the first of them; None = this is the only one.

    In any other it takes part in what the first one trains and then ends the command: silently, for the first one
    says what there is to say. Raises TrainingError where they cannot meet.
    """
    from upturn.training.distributed import world_from_environment

    world = world_from_environment()
    if world is None or world.is_first:
        return world
    from upturn.loop.trainers import follow_rank0

    raise typer.Exit(0 if follow_rank0(world) else 1)


def started_again(world: "World | None", command: list[str]) -> list[str]:
    """The command as it is to be started to go on, with as many processes."""
    return command if world is None else ["torchrun", "--nproc-per-node", str(world.size), "--no-python", *command]

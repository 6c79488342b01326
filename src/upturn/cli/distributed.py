"""Commands that a launcher such as torchrun may start in several processes, to train one model."""

from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from upturn.training.distributed import World


def lead_world() -> "World | None":
    """The processes of this command, in rank 0; None = there is only one process.

    On other ranks it takes part in rank 0's training and then ends the command silently. Raises TrainingError if
    the processes cannot connect.
    """
    from upturn.training.distributed import world_from_environment

    world = world_from_environment()
    if world is None or world.is_first:
        return world
    from upturn.loop.trainers import follow_rank0

    raise typer.Exit(0 if follow_rank0(world) else 1)


def launch_command(world: "World | None", command: list[str]) -> list[str]:
    """The command that starts ``command`` with the same number of processes."""
    return command if world is None else ["torchrun", "--nproc-per-node", str(world.size), "--no-python", *command]

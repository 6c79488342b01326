"""The episodes of a run, frozen: a resumed run trains on those that it began with."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence

from upturn.errors import TrainingError
from upturn.loop.run import Context
from upturn.loop.trainers.traffic.traffic import model_text_of, read_contents
from upturn.loop.trainers.traffic.ways import Found, ItemT
from upturn.pool import Experience, take_snapshot_of
from upturn.records import AgentVersion, record


@record
class FrozenTraffic:
    """The episodes of a run, as its journal has them."""

    rewards: Mapping[str, float]
    """By the id of the trajectory."""
    snapshot: str
    """Id of the snapshot of the trajectories."""


def frozen_traffic(context: Context, find: Callable[[], Mapping[str, float]]) -> FrozenTraffic:
    """The episodes that the run began with; ``find`` is called in a new run only."""

    def freeze() -> FrozenTraffic:
        rewards = dict(sorted(find().items()))
        criteria = json.dumps({"traffic": rewards})
        snapshot = take_snapshot_of(context.pool, rewards, tenant=context.tenant, criteria=criteria)
        return FrozenTraffic(rewards, snapshot.id)

    return context.journal.record_step("traffic", FrozenTraffic, freeze)


def read_frozen(context: Context, version: AgentVersion, frozen: FrozenTraffic) -> Sequence[Experience]:
    """The data points of the run in the tokens of the version's model, by id."""
    return read_sides(context, version, frozen.rewards)


def read_sides(context: Context, version: AgentVersion, trajectory_ids: Iterable[str]) -> Sequence[Experience]:
    """These data points in the tokens of the version's model, in this order."""
    model_text = model_text_of(version)
    return read_contents(context.pool, trajectory_ids, tenant=context.tenant, model_text=model_text).experiences


def note_omissions(context: Context, found: Found[ItemT]) -> None:
    """Notes which episodes are left out; raises TrainingError where nothing is found to train on."""
    if found.refusal:
        raise TrainingError(found.refusal)
    if found.omissions:
        context.progress.note(f"omitted episodes: {found.omissions}")

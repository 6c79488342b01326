"""What each algorithm can take from traffic. Where it is nothing, the refusal says why, and what to do."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Generic, NamedTuple, TypeVar

from upturn.loop.trainers.traffic.traffic import Traffic
from upturn.pool.traffic import WITHOUT_REWARD, Episode
from upturn.records import RatedTrajectory, Trajectory

ItemT = TypeVar("ItemT")

_OMITTED: Mapping[str, str] = {
    **WITHOUT_REWARD,
    "bad": "that are not good",
    "undecided": "with rewards that are neither good nor bad",
    "foreign": "without tokens of the trained agent's model",
}
_CURE = (
    "Send feedback (POST /v1/feedback) and seal episodes (POST /v1/episodes/ID/seal), or change [traffic] "
    "(docs/pool.md)"
)


class Found(NamedTuple, Generic[ItemT]):
    """What an algorithm can train on."""

    items: Sequence[ItemT]
    left_out: Mapping[str, int]
    """Number of episodes by the cause of their omission."""
    refusal: str
    """Why it cannot train, and what to do; empty = it can."""

    @property
    def omissions(self) -> str:
        """How many episodes are left out, and why; empty = none."""
        return ", ".join(f"{count} {_OMITTED[cause]}" for cause, count in self.left_out.items() if count)


def find_demonstrations(traffic: Traffic) -> Found[Trajectory]:
    """Good episodes, to imitate."""
    rewarded, left_out = _rewarded(traffic)
    good = [episode for episode in rewarded if _reward(episode) > traffic.settings.good_above]
    trajectories = _trajectories(traffic, good)
    left_out["bad"] = len(rewarded) - len(good)
    left_out["foreign"] = len(good) - len(trajectories)
    found = Found(trajectories, left_out, "")
    if trajectories:
        return found
    return found._replace(
        refusal=_nothing(traffic, found, f"good episode (reward above {traffic.settings.good_above:g})")
    )


def find_ratings(traffic: Traffic) -> Found[RatedTrajectory]:
    """Good and bad episodes; both are needed."""
    settings = traffic.settings
    rewarded, left_out = _rewarded(traffic)
    is_good = {
        episode.trajectory_id: _reward(episode) > settings.good_above
        for episode in rewarded
        if _reward(episode) > settings.good_above or _reward(episode) < settings.bad_below
    }
    decided = [episode for episode in rewarded if episode.trajectory_id in is_good]
    trajectories = _trajectories(traffic, decided)
    left_out["undecided"] = len(rewarded) - len(decided)
    left_out["foreign"] = len(decided) - len(trajectories)
    ratings = [RatedTrajectory(trajectory, is_good[trajectory.id]) for trajectory in trajectories]
    found = Found(ratings, left_out, "")
    sides = Counter(rating.is_desirable for rating in ratings)
    if sides[True] and sides[False]:
        return found
    kinds = [f"good episode (reward above {settings.good_above:g})"] * (not sides[True])
    kinds += [f"bad episode (reward below {settings.bad_below:g})"] * (not sides[False])
    return found._replace(refusal=_nothing(traffic, found, " and no ".join(kinds)))


def _rewarded(traffic: Traffic) -> tuple[list[Episode], Counter[str]]:
    """The episodes with a reward, and the number of others by cause."""
    left_out: Counter[str] = Counter(dict.fromkeys(WITHOUT_REWARD, 0))
    left_out.update(episode.reward.missing for episode in traffic.episodes if episode.reward.missing)
    return [episode for episode in traffic.episodes if episode.reward.value is not None], left_out


def _reward(episode: Episode) -> float:
    assert episode.reward.value is not None
    return episode.reward.value


def _trajectories(traffic: Traffic, episodes: Sequence[Episode]) -> list[Trajectory]:
    written = traffic.writable(episode.trajectory_id for episode in episodes)
    return [experience.trajectory for experience in written]


def _nothing(traffic: Traffic, found: Found[ItemT], wanted: str) -> str:
    return (
        f"{traffic.path!r} holds no {wanted} of the tenant {traffic.tenant!r} to train on; of "
        f"{len(traffic.episodes)} sealed episodes are omitted: {found.omissions or 'none'}. {_CURE}"
    )

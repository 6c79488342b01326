"""What each algorithm can take from traffic. Where it is nothing, the refusal says why, and what to do."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Generic, NamedTuple, TypeVar

from upturn.loop.trainers.traffic.traffic import Traffic
from upturn.pool import Experience
from upturn.pool.traffic import WITHOUT_REWARD, Episode
from upturn.records import PreferencePair, PreferenceSource, RatedTrajectory, Trajectory, pair_problem
from upturn.training import StoredPairSettings
from upturn.training.algorithms.offline import OfflineSettings
from upturn.training.data import exclusion_reason

ItemT = TypeVar("ItemT")

_OMITTED: Mapping[str, str] = {
    "unsealed": "with feedback that are not sealed (`upturn pool seal`)",
    **WITHOUT_REWARD,
    "bad": "that are not good",
    "undecided": "with rewards that are neither good nor bad",
    "foreign": "sampled with another tokenizer than the trained agent's",
    "deleted": "of another model whose contents are deleted (gateway.keep_days)",
    "unwritable": "that the trained agent's model cannot read or write",
    "one_sided": "without an episode of the other version with the same prompt",
    "alone": "alone with their prompt",
    "equal": "with rewards that do not differ enough",
    "widowed": "whose other side cannot be read",
    "unusable": "in pairs that wrote the same",
    "rendered": "whose model returned no tokens and log-probs",
    "temperature": "sampled greedily, at an unknown temperature or at several, or with other options than recorded",
    "no_logprobs": "without all log-probs of their sampler",
}
_CURE = (
    "Send feedback (POST /v1/feedback) and seal episodes (POST /v1/episodes/ID/seal), or change [traffic] "
    "(docs/traffic.md)"
)

_ALONE = (
    'Set [offline] advantage = { baseline = "none", scale = "whiten" }: then all episodes of an iteration are '
    "compared with each other"
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
    left_out["bad"] = len(rewarded) - len(good)
    trajectories = _trajectories(traffic, good, left_out)
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
    left_out["undecided"] = len(rewarded) - len(decided)
    trajectories = _trajectories(traffic, decided, left_out)
    ratings = [RatedTrajectory(trajectory, is_good[trajectory.id]) for trajectory in trajectories]
    found = Found(ratings, left_out, "")
    sides = Counter(rating.is_desirable for rating in ratings)
    if sides[True] and sides[False]:
        return found
    kinds = [f"good episode (reward above {settings.good_above:g})"] * (not sides[True])
    kinds += [f"bad episode (reward below {settings.bad_below:g})"] * (not sides[False])
    return found._replace(refusal=_nothing(traffic, found, " and no ".join(kinds)))


def find_pairs(traffic: Traffic, settings: StoredPairSettings) -> Found[PreferencePair]:
    """Pairs of episodes with the same prompt, the one with the higher reward chosen.

    With ``old`` and ``new`` the first episodes of the two versions are compared, then the second ones, and so on;
    without them the best episode of a prompt with its worst, whatever versions answered.
    """
    rewarded, left_out = _rewarded(traffic)
    left_out.update(dict.fromkeys(("one_sided", "alone", "equal", "deleted", "unwritable", "unusable"), 0))
    matches = _version_matches if settings.old else _extreme_matches
    source: PreferenceSource = "deployment" if settings.old else "group"
    compared = list(matches(rewarded, settings, left_out))
    sides = {
        trajectory.id: trajectory
        for trajectory in _trajectories(traffic, [side for pair in compared for side in pair], left_out)
    }
    pairs = []
    for better, worse in compared:
        if better.trajectory_id not in sides or worse.trajectory_id not in sides:
            left_out["widowed"] += (better.trajectory_id in sides) + (worse.trajectory_id in sides)
            continue
        chosen, rejected = sides[better.trajectory_id], sides[worse.trajectory_id]
        margin = _reward(better) - _reward(worse)
        pair = PreferencePair(f"{chosen.id} > {rejected.id}", chosen, rejected, source, margin)
        if pair_problem(pair) is None:
            pairs.append(pair)
        else:
            left_out["unusable"] += 2
    found = Found(pairs, left_out, "")
    if pairs:
        return found
    versions = f" of the versions {settings.old!r} and {settings.new!r}" if settings.old else ""
    return found._replace(
        refusal=_nothing(traffic, found, f"pair of episodes{versions} with the same prompt and different rewards")
    )


def _version_matches(
    rewarded: Sequence[Episode], settings: StoredPairSettings, left_out: Counter[str]
) -> Iterator[tuple[Episode, Episode]]:
    by_task: dict[str, tuple[list[Episode], list[Episode]]] = {}
    for episode in rewarded:
        if episode.agent_version in (settings.old, settings.new):
            sides = by_task.setdefault(episode.task_id, ([], []))
            sides[episode.agent_version == settings.new].append(episode)
        else:
            left_out["one_sided"] += 1
    for old, new in by_task.values():
        left_out["one_sided"] += abs(len(old) - len(new))
        for compared in zip(old, new, strict=False):
            worse, better = sorted(compared, key=_reward)
            if _reward(better) - _reward(worse) > settings.min_margin:
                yield better, worse
            else:
                left_out["equal"] += 2


def _extreme_matches(
    rewarded: Sequence[Episode], _settings: StoredPairSettings, left_out: Counter[str]
) -> Iterator[tuple[Episode, Episode]]:
    for same in _by_task(rewarded).values():
        ordered = sorted(same, key=_reward)
        if len(same) == 1:
            left_out["alone"] += 1
        elif _reward(ordered[-1]) > _reward(ordered[0]):
            yield ordered[-1], ordered[0]
            left_out["equal"] += len(same) - 2
        else:
            left_out["equal"] += len(same)


def find_sampled(traffic: Traffic, settings: OfflineSettings) -> Found[Experience]:
    """Episodes with the log-probs of their sampler, to be compared with others of the same prompt, or with all."""
    rewarded, left_out = _rewarded(traffic)
    left_out.update(dict.fromkeys(("rendered", "foreign", "temperature", "no_logprobs"), 0))
    left_out["rendered"] = sum(episode.origin != "sampled" for episode in rewarded)
    sampled_ids = [episode.trajectory_id for episode in rewarded if episode.origin == "sampled"]
    written = traffic.contents(sampled_ids, is_rendered=False)
    left_out.update(written.lost)
    sampled = []
    for experience in written.experiences:
        reason = exclusion_reason(experience.trajectory)
        if reason is None:
            sampled.append(experience)
        else:
            left_out[reason] += 1
    usable = sampled
    if settings.advantage.baseline != "none":
        sizes = Counter(experience.task.id for experience in sampled)
        usable = [experience for experience in sampled if sizes[experience.task.id] > 1]
    left_out["alone"] = len(sampled) - len(usable)
    found = Found(usable, left_out, "")
    if usable:
        return found
    if sampled:
        return found._replace(refusal=_nothing(traffic, found, "two sampled episodes with the same prompt", _ALONE))
    return found._replace(
        refusal=_nothing(traffic, found, "episode with its sampler's log-probs", _tokens_cure(rewarded))
    )


def _tokens_cure(rewarded: Sequence[Episode]) -> str:
    """What makes later episodes usable, by the agents of these."""
    if not rewarded:
        return _CURE
    tokenless = Counter(
        episode.agent_version.rpartition("@")[0] for episode in rewarded if episode.origin != "sampled"
    )
    cures = [
        f"{agent!r} returned no token ids and log-probs ({count}): serve the model as kind local_model, or by vLLM "
        "with agents.upstream.tokens = 'vllm'"
        for agent, count in tokenless.most_common(3)
    ]
    if any(episode.origin == "sampled" for episode in rewarded):
        cures.append("answers are usable if all calls of an episode sample at the same temperature above 0")
    return "; ".join(cures)


def _rewarded(traffic: Traffic) -> tuple[list[Episode], Counter[str]]:
    """The episodes with a reward, and the number of others by cause."""
    left_out: Counter[str] = Counter({"unsealed": traffic.unsealed, **dict.fromkeys(WITHOUT_REWARD, 0)})
    left_out.update(episode.reward.missing for episode in traffic.episodes if episode.reward.missing)
    return [episode for episode in traffic.episodes if episode.reward.value is not None], left_out


def _reward(episode: Episode) -> float:
    assert episode.reward.value is not None
    return episode.reward.value


def _by_task(episodes: Sequence[Episode]) -> Mapping[str, list[Episode]]:
    by_task: dict[str, list[Episode]] = {}
    for episode in episodes:
        by_task.setdefault(episode.task_id, []).append(episode)
    return by_task


def _trajectories(traffic: Traffic, episodes: Sequence[Episode], left_out: Counter[str]) -> list[Trajectory]:
    """In the trained model's tokens; counts those that are not."""
    read = traffic.contents(episode.trajectory_id for episode in episodes)
    left_out.update(read.lost)
    return [experience.trajectory for experience in read.experiences]


def _nothing(traffic: Traffic, found: Found[ItemT], wanted: str, cure: str = _CURE) -> str:
    return (
        f"{traffic.path!r} holds no {wanted} of the tenant {traffic.tenant!r} to train on; omitted episodes: "
        f"{found.omissions or 'none'}. {cure}"
    )

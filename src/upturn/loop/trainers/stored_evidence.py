"""Which ways of learning the stored trajectories support, and why not the others; the gateway's traffic apart.

Everything is counted over the training tasks of one tenant, without rendering: what a model's format cannot write
is known only to the trainer, which says so.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from typing import NamedTuple

from upturn.config import Config
from upturn.environments import resolve_kit
from upturn.errors import UnknownNameError
from upturn.pool import (
    Experience,
    LostWordsError,
    PoolReader,
    correction_pairs,
    is_imported,
    missing_reward,
    trajectory_ratings,
    transcript,
)
from upturn.pool.quality import IMPORTED
from upturn.records import EPISODE_TASK, MODEL_CALL, Trajectory
from upturn.training.algorithms.sft import SftSettings

_MOST_REASONS = 6


class StoredWay(NamedTuple):
    """One way of learning."""

    kind: str
    """``supervised``, ``preference``, ``ratings``, ``off-policy`` or ``on-policy``."""
    command: str
    """That trains so."""
    number: int
    """What it can train on; 0 = it cannot."""
    unit: str
    refusal: str
    """Why it cannot train, and what to do; empty = it can."""
    omissions: str
    """How many are left out, and why; empty = none."""
    settings: str
    """Lines of ``upturn.toml`` that the command needs; empty = it cannot train."""


def survey_stored(pool: PoolReader, config: Config) -> Sequence[StoredWay]:
    """The ways of learning from what is stored for the configured tenant; empty = no trajectory is."""
    survey = _Survey(config.section(SftSettings))
    tenant = config.pool.tenant
    for experience in pool.experiences(tenant=tenant, has_tokens=False):
        survey.add(experience)
    if not survey.trajectories:
        return []
    return [
        survey.supervised(config),
        survey.preference(pool, config),
        _ratings(pool, config),
        survey.off_policy(config),
        survey.on_policy(config),
    ]


class _Survey:
    """Counts trajectories as they come; single use."""

    def __init__(self, settings: SftSettings) -> None:
        self._settings = settings
        self.trajectories = 0
        self._successes, self._unusable = Counter[str](), Counter[str]()
        self._families: set[str] = set()
        """Of imported conversations that can be trained on."""
        self._scores = defaultdict[str, dict[str, float]](dict)
        """The first score of each agent version, by task."""
        self._sampled, self._unsampled = Counter[str](), Counter[str]()
        """Sampled trajectories by task; the others by reason."""
        self._tasks = defaultdict[str, set[str]](set)
        """Ids of tasks by environment."""

    def add(self, experience: Experience) -> None:
        """Counts one."""
        task, trajectory, evaluation = experience
        if task.environment == MODEL_CALL or task.id.startswith(f"{EPISODE_TASK}:"):
            return
        self.trajectories += 1
        if task.split != "train":
            self._unusable["of held-out tasks"] += 1
            self._unsampled["of held-out tasks"] += 1
            return
        self._tasks[task.environment].add(task.id)
        if problem := self._problem(experience):
            self._unusable[problem] += 1
        else:
            self._successes[task.family] += 1
            if is_imported(trajectory):
                self._families.add(task.family)
        is_judged = evaluation is not None and evaluation.score is not None and trajectory.turns
        if evaluation is not None and evaluation.score is not None and not words_problem(trajectory):
            self._scores[task.id].setdefault(trajectory.agent_version, evaluation.score)
        if trajectory.origin != "sampled":
            self._unsampled["without their sampler's log-probs"] += 1
        elif is_judged:
            self._sampled[task.id] += 1
        else:
            self._unsampled["without a verdict or a score"] += 1

    def _problem(self, experience: Experience) -> str:
        """Why it is no demonstration; empty = it is one."""
        evaluation = experience.evaluation
        if not experience.trajectory.turns:
            return "without turns"
        if missing_reward(experience) or evaluation is None or evaluation.score is None:
            return "without a verdict or a score, or broken"
        if not evaluation.is_success:
            return "that failed"
        if evaluation.score < self._settings.min_score:
            return f"with a score below sft.min_score = {self._settings.min_score:g}"
        return words_problem(experience.trajectory)

    def supervised(self, config: Config) -> StoredWay:
        """Successes to imitate."""
        number = self._successes.total()
        refusal = (
            "" if number else "no success with words: import conversations with `reward` or `success`, or judge"
        )
        largest = max(self._successes.values(), default=0)
        limit = {"sft": {"limit_per_family": largest}} if largest > self._settings.limit_per_family else {}
        settings = _lines(config, self._families, limit) if number else ""
        return StoredWay(
            "supervised", "upturn train sft", number, "successes", refusal, _listed(self._unusable), settings
        )

    def preference(self, pool: PoolReader, config: Config) -> StoredWay:
        """Imported preferences and corrections, otherwise two versions with different scores on common tasks."""
        found = correction_pairs(pool, tenant=config.pool.tenant)
        pairs = (*found.pairs, *found.tokenless)
        lost = Counter(
            problem for pair in pairs if (problem := words_problem(pair.chosen) or words_problem(pair.rejected))
        )
        number = len(pairs) - lost.total()
        families: set[str] = set()
        if number:
            sides = {pair.chosen.task_id for pair in pairs if is_imported(pair.chosen)}
            families = {task.family for task in pool.tasks(tenant=config.pool.tenant, ids=sorted(sides))}
        compared = Counter(
            (old, new)
            for scores in self._scores.values()
            for old, new in combinations(sorted(scores), 2)
            if scores[old] != scores[new]
        )
        dpo: dict[str, dict[str, object]] = {}
        if not number and compared:
            (old, new), number = compared.most_common(1)[0]
            dpo, families = {"dpo": {"old": old, "new": new}}, self._families
        refusal = (
            ""
            if number
            else "nothing says which of two answers to a prompt is better, and no two models have different scores "
            "on one task: import preferences (chosen, rejected), or feedback with corrections"
        )
        settings = _lines(config, families, dpo) if number else ""
        return StoredWay("preference", "upturn train dpo", number, "pairs", refusal, _listed(lost), settings)

    def off_policy(self, config: Config) -> StoredWay:
        """Sampled trajectories with others of the same task."""
        number = sum(count for count in self._sampled.values() if count > 1)
        alone = sum(count for count in self._sampled.values() if count == 1)
        left_out = self._unsampled + Counter({"alone at their task": alone})
        refusal = (
            ""
            if number
            else "no two trajectories of one task with their sampler's log-probs, which other tools do not record: "
            "sample with `upturn train grpo`, or train on what there is with sft or dpo"
        )
        return StoredWay(
            "off-policy",
            "upturn train offline",
            number,
            "sampled trajectories",
            refusal,
            _listed(left_out),
            _lines(config, (), {}) if number else "",
        )

    def on_policy(self, config: Config) -> StoredWay:
        """Tasks that an agent can do again, and a verifier can judge."""
        known = {name for name in self._tasks if name == config.environment.name or _is_known(name)} - {IMPORTED}
        number = sum(len(self._tasks[name]) for name in known)
        left_out = Counter({f"of {name!r}": len(tasks) for name, tasks in self._tasks.items() if name not in known})
        refusal = (
            ""
            if number
            else "imported tasks have no environment to act in and no verifier: write one (docs/environments.md), "
            "or train on `[environment]`'s own tasks"
        )
        largest = max(known, key=lambda name: len(self._tasks[name]), default="")
        settings = _toml({"environment": {"name": largest}}) if number else ""
        unit = "tasks with an environment"
        return StoredWay("on-policy", "upturn train grpo", number, unit, refusal, _listed(left_out), settings)


def _ratings(pool: PoolReader, config: Config) -> StoredWay:
    """Thumbs."""
    found = trajectory_ratings(pool, tenant=config.pool.tenant)
    rated = [rating.trajectory for rating in (*found.rated, *found.tokenless)]
    lost = Counter(problem for trajectory in rated if (problem := words_problem(trajectory)))
    number = len(rated) - lost.total()
    refusal = "" if number else "nobody rated a trajectory: import feedback with thumbs"
    sides = [trajectory.task_id for trajectory in rated if is_imported(trajectory)]
    families = {task.family for task in pool.tasks(tenant=config.pool.tenant, ids=sorted(set(sides)))}
    settings = _lines(config, families, {}) if number else ""
    return StoredWay("ratings", "upturn train kto", number, "rated trajectories", refusal, _listed(lost), settings)


def words_problem(trajectory: Trajectory) -> str:
    """Why an imported conversation cannot be given back word for word; empty = it can, or is not imported."""
    if not trajectory.turns:
        return "without turns"
    if not is_imported(trajectory):
        return ""
    try:
        transcript(trajectory)
    except LostWordsError as exc:
        return f"imported: {exc}"
    return ""


def _is_known(environment: str) -> bool:
    try:
        resolve_kit(environment)
    except UnknownNameError:
        return False
    return True


def _listed(reasons: Mapping[str, int]) -> str:
    counts = Counter({reason: count for reason, count in reasons.items() if count}).most_common(_MOST_REASONS)
    return ", ".join(f"{count:,} {reason}" for reason, count in counts)


def _lines(config: Config, families: Iterable[str], further: Mapping[str, Mapping[str, object]]) -> str:
    """The pool with its imported families, and further settings, as TOML."""
    pool: dict[str, object] = {"path": config.pool.path}
    if config.pool.tenant != "default":
        pool["tenant"] = config.pool.tenant
    if imported := {*families, *config.pool.imported_families}:
        pool["imported_families"] = sorted(imported)
    return _toml({"pool": pool, **further})


def _toml(tables: Mapping[str, Mapping[str, object]]) -> str:
    return "\n".join(
        line
        for name, table in tables.items()
        for line in (
            f"[{name}]",
            *(f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in table.items()),
        )
    )

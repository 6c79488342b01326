"""Ways of learning in errands, level 3, from equally many sampled tokens, after a world model and without one.

All begin with the model of ``bench.credit.errands``. What the world model learns from and what it predicts is
sampled out of the same budget. Success is that of sampled attempts at training templates in worlds that practice
never meets, the same ones for all.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.algorithms.errands_algorithms import WAYS, Way
from benchmarks.algorithms.token_budget import Meter, MeteredSampler, SpentError
from benchmarks.credit import Errands, ErrandsSettings, reward_of
from benchmarks.result_cache import Entry, Ledger, digest
from upturn.config import OptimiserSettings
from upturn.loop.rollouts import PolicyWorker, RolloutPlan, SecondAttempts, TaskSampler
from upturn.loop.trainers import observed, own_rows
from upturn.models import RenderedObservations
from upturn.records import record
from upturn.training import ScoredGroup
from upturn.training.algorithms.sft import SftSettings
from upturn.training.algorithms.world_model import Predictor, WorldModelSettings, run_world_model
from upturn.training.data import HintedGroup
from upturn.training.runs import RunOptions

EXAM_SEED = 0
"""One examination for all seeds: then what seeds differ by is learning."""


def _world_model() -> WorldModelSettings:
    """Practice goes on until its share of the budget is spent; the last weights are kept."""
    return WorldModelSettings(
        iterations=1_000,
        evaluate_every=None,
        keep="final",
        warm_up=SftSettings(epochs=1, optimiser=OptimiserSettings(learning_rate=1e-3)),
    )


@dataclass(frozen=True, slots=True)
class CoursesSettings:
    """Everything that decides a result, beside way and seed."""

    errands: ErrandsSettings = field(default_factory=ErrandsSettings)
    observed_rounds: int = 2
    """Rounds of attempts that the world model learns from."""
    world_share: float = 1 / 3
    """Of the budget, for the world model with what it learns from."""
    world_model: WorldModelSettings = field(default_factory=_world_model)


@record
class Course:
    """One training."""

    curve: tuple[tuple[int, float], ...]
    """Tokens sampled and success, from the start."""
    outcomes: tuple[float, ...]
    """1 or 0 of each examined task, in the end."""
    world_tokens: int
    """Of ``curve``'s tokens, those that the world model took; 0 = there was none."""


Courses = Mapping[str, Sequence[Course]]
"""By way, with ``_after_world_model`` behind its name where there was one; then by seed."""
AFTER = "_after_world_model"


def names(ways: Mapping[str, Way] = WAYS) -> list[str]:
    """Of all courses of one seed."""
    return [f"{way}{suffix}" for way in ways for suffix in ("", AFTER)]


def measure_courses(
    ledger: Ledger,
    folder: Path,
    seeds: Sequence[int],
    *,
    settings: CoursesSettings,
    on_done: Callable[[], None] = lambda: None,
) -> Courses:
    """Measures what is not in the ledger yet; ``on_done`` after each of seeds · courses.

    The model that everything starts from lies in ``folder``; it is made where it is missing. Uses torch with the
    threads that the caller has set.
    """
    errands = Errands(folder, settings.errands)
    found: dict[str, list[Course]] = {name: [] for name in names()}
    for seed in seeds:
        for name, courses in found.items():
            way = WAYS[name.removesuffix(AFTER)]
            is_after = name.endswith(AFTER)
            options = f"{digest(way.settings)}/{way.round_share:g}{'/rehearsed' if is_after else ''}"
            entry = Entry("errands", name, seed, options)
            measure = partial(course, errands, way, seed, settings=settings, is_after=is_after)
            courses.append(ledger.measured(entry, Course, measure))
            on_done()
    return found


def course(errands: Errands, way: Way, seed: int, *, settings: CoursesSettings, is_after: bool) -> Course:
    """One model's course to the end of the budget."""
    worker = errands.worker()
    meter = Meter(errands.settings.budget)
    curve = [(0, errands.evaluate_heldout(worker, seed=EXAM_SEED).rate())]
    with TemporaryDirectory() as name:
        if is_after:
            learn_world(errands, worker, meter, seed=seed, settings=settings, folder=Path(name) / "world")
        world_tokens = meter.tokens
        source = Source(errands, worker, meter, way, seed=seed)

        def watch(_: int) -> float:
            if meter.tokens != curve[-1][0]:
                curve.append((meter.tokens, errands.evaluate_heldout(worker, seed=EXAM_SEED).rate()))
            return curve[-1][1]

        run = RunOptions(seed, Path(name) / "run", evaluate=watch)
        with suppress(SpentError):
            way.learn(worker.model, source, way.settings, run)
    last = errands.evaluate_heldout(worker, seed=EXAM_SEED)
    if curve[-1][0] == meter.tokens:
        curve.pop()
    return Course((*curve, (meter.tokens, last.rate())), tuple(last.outcomes()), world_tokens)


def learn_world(
    errands: Errands, worker: PolicyWorker, meter: Meter, *, seed: int, settings: CoursesSettings, folder: Path
) -> None:
    """The world-model stage: attempts, of which none is rewarded, and predictions of what they were answered.

    The warm-up rehearses what the model wrote in these attempts, so that it does not unlearn acting.
    """
    wanted = errands.settings
    share = Meter(int(wanted.budget * settings.world_share))
    sampler = TaskSampler(errands.kit, dict.fromkeys(wanted.families, 1.0), wanted.tasks, seed=seed)
    practice = RolloutPlan(f"world/{seed}", seed, wanted.attempts, reward_of)
    attempts = []
    for iteration in range(settings.observed_rounds):
        groups = worker.sample_groups(sampler.tasks(iteration), iteration, practice, errands.sink)
        share.count(groups)
        attempts += [member.trajectory for group in groups for member in group.members]
    world = observed(attempts, worker)
    predictor = Predictor(MeteredSampler(worker.engine, share), RenderedObservations(worker.renderer))
    with suppress(SpentError):
        run_world_model(
            worker.model,
            predictor,
            (*world.trained, *world.held_out),
            settings.world_model,
            RunOptions(seed, folder),
            rehearsal=() if settings.world_model.warm_up is None else own_rows(attempts, worker.version),
        )
    meter.tokens += share.tokens


class Source:
    """Where a way gets its attempts from, all of them counted."""

    def __init__(self, errands: Errands, worker: PolicyWorker, meter: Meter, way: Way, *, seed: int) -> None:
        wanted = errands.settings
        self._errands = errands
        self._worker = worker
        self._meter = meter
        self._least = int(way.round_share * wanted.budget)
        self._batch = 0
        self._practice = RolloutPlan(f"practice/{seed}", seed, wanted.attempts, reward_of)
        self._tasks = TaskSampler(errands.kit, dict.fromkeys(wanted.families, 1.0), wanted.tasks, seed=seed)

    def collect(self, round_: int, /) -> list[ScoredGroup]:  # noqa: ARG002  # batches count on through the rounds
        """One batch of tasks, or as many as the way's round takes.

        Raises SpentError once the budget is spent, or less is left than half a round: a way that begins anew in
        each round would end with what little that one found.
        """
        self._meter.check()
        if self._meter.budget - self._meter.tokens < self._least / 2:
            raise SpentError
        found: list[ScoredGroup] = []
        until = min(self._meter.tokens + self._least, self._meter.budget)
        while not found or self._meter.tokens < until:
            tasks = self._tasks.tasks(self._batch)
            groups = self._worker.sample_groups(tasks, self._batch, self._practice, self._errands.sink)
            self._batch += 1
            self._meter.count(groups)
            found += groups
        return found

    def second(self, round_: int, failed: Sequence[ScoredGroup], /) -> list[HintedGroup]:
        """Attempts at what failed, with the answer at hand."""
        groups = SecondAttempts(self._worker, self._practice, "rationalisation")(round_, failed)
        self._meter.count([each.group for each in groups])
        return groups

"""The training steps of a cycle: from the pool's evidence, or from practice, to a new version in a folder.

A training run resumes from its own checkpoint; the version it makes is written once, under a name that its weights
decide.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple

from upturn.agents import matches_tokenizer, rendered_rows
from upturn.agents.context import PromptBuilder
from upturn.errors import RecordError, TrainingError
from upturn.loop.evaluation import watch_of
from upturn.loop.progress import told
from upturn.loop.rollouts import Trainee
from upturn.loop.run import Context, continuations
from upturn.loop.trainers.candidate import keep_version, training_folder
from upturn.loop.trainers.distributed_training import jointly
from upturn.loop.trainers.rl_training import Course, Practising, Reward, practice_of, practised
from upturn.models import Renderer
from upturn.pool import Selection, experiences_in, take_snapshot
from upturn.records import AgentVersion, Snapshot, Trajectory
from upturn.training import TrainingOutcome
from upturn.training.algorithms.grpo import GrpoSettings
from upturn.training.algorithms.sft import SftSettings
from upturn.training.runs import RunOptions

FAMILY_CAP = 48
"""Demonstrations of one family in supervised training: the easy families must not crowd out the others."""


def take_training_snapshot(context: Context) -> Snapshot:
    """Verified successes of this tenant on the practised families, frozen under an id.

    Raises TrainingError when there is none.
    """
    selection = Selection(
        families=tuple(context.practised),
        splits=("train",),
        verdicts=("success",),
        min_score=context.config.section(SftSettings).min_score,
        limit_per_family=FAMILY_CAP,
    )
    snapshot = take_snapshot(context.pool, tenants=[context.tenant], selection=selection)
    if not snapshot.trajectory_ids:
        raise TrainingError(
            f"there is no verified success with a score of sft.min_score = {selection.min_score:g} or more in "
            f"{', '.join(context.practised)} of the tenant {context.tenant!r}: let an agent serve that solves some "
            "of the tasks, or lower sft.min_score"
        )
    return snapshot


def train_sft(context: Context, parent: AgentVersion, snapshot: Snapshot, name: str) -> AgentVersion:
    """The parent after supervised training on the snapshot, with loss on what agents wrote only."""
    from upturn.training import supervised_rows
    from upturn.training.algorithms.sft import run_sft

    settings = context.config.section(SftSettings)
    trainee = Trainee(context.fleet, parent, context.adapter)
    demonstrations = rendered_demonstrations(context, snapshot, trainee)
    rows = supervised_rows(demonstrations)
    steps = settings.epochs * math.ceil(len(rows) / settings.batch_rows)
    context.progress.stage(f"Supervised training on {len(rows)} verified successes", steps)
    jointly(
        context.world,
        trainee,
        run_sft,
        rows,
        settings,
        RunOptions(
            context.seed,
            training_folder(context, name),
            evaluate=watch_of(context, trainee, name, settings),
            progress=told(context.progress, loss="loss"),
        ),
    )
    return keep_version(context, trainee, parent, name, snapshot=snapshot.id)


def demonstrations_in(context: Context, snapshot: Snapshot) -> list[Trajectory]:
    """The snapshot's trajectories by task and agent version, so that all runs of one seed learn in one order.

    Trajectory ids hold the run's id, and with it the time of its start.
    """
    found = [each.trajectory for each in experiences_in(context.pool, snapshot.id, tenant=context.tenant)]
    return sorted(found, key=lambda each: (each.task_id, each.agent_version, each.id))


def train_grpo(
    context: Context, parent: AgentVersion, weights: Mapping[str, float], name: str, *, reward: Reward | None = None
) -> AgentVersion:
    """The parent after practice in the environment; ``weights`` says how much each family is practised.

    ``reward``: what an attempt earns; None = the configured rubric's score. Returns the parent itself where nothing
    was kept.
    """
    from upturn.training.algorithms.grpo import run_grpo

    settings = context.config.section(GrpoSettings)

    def learn(own: Practising) -> TrainingOutcome:
        return jointly(
            context.world,
            own.trainee,
            run_grpo,
            own.collect,
            settings,
            RunOptions(context.seed, own.folder, evaluate=own.evaluate, progress=own.progress),
            refill=None if settings.dynamic_sampling is None else own.refill,
        )

    course = grpo_course(context, settings, weights, name, reward=reward)
    return practised(context, parent, name, course=course, learn=learn)


def grpo_course(
    context: Context,
    settings: GrpoSettings,
    weights: Mapping[str, float],
    name: str,
    *,
    reward: Reward | None = None,
) -> Course:
    """How ``[grpo]`` practises; see ``train_grpo``."""
    practice = replace(
        practice_of(context, name, settings.group_size, reward=reward),
        continuations=continuations(settings.advantage),
        gamma=settings.advantage.gamma,
    )
    title = "Practice with group-relative policy optimisation"
    return Course(title, settings, weights, practice, settings.staleness, context.config.curriculum)


class Rendered(NamedTuple):
    """Stored attempts in the tokens of one agent."""

    attempts: tuple[Trajectory, ...]
    """With something to learn."""
    unwritable: int
    """How many have nothing."""


def rendered(attempts: Iterable[Trajectory], trainee: Trainee) -> Rendered:
    """The attempts with token rows of the trainee's renderer, see ``with_rows``."""
    found = [with_rows(each, trainee.renderer, trainee.prompts) for each in attempts]
    written = tuple(each for each in found if any(row.spans for row in each.rows))
    return Rendered(written, len(found) - len(written))


def rendered_demonstrations(context: Context, snapshot: Snapshot, trainee: Trainee) -> tuple[Trajectory, ...]:
    """``demonstrations_in`` in the trainee's tokens; notes how many it cannot write.

    Raises TrainingError where it can write none.
    """
    found = rendered(demonstrations_in(context, snapshot), trainee)
    if not found.attempts:
        raise TrainingError(
            f"{trainee.version.agent!r} can write the first action of none of the {found.unwritable} verified "
            "successes that it should learn from; take a pool with attempts in its environment, or an agent with "
            "another renderer"
        )
    if found.unwritable:
        context.progress.note(f"left out of the successes: {found.unwritable} that the agent cannot write")
    return found.attempts


def with_rows(trajectory: Trajectory, renderer: Renderer, prompts: PromptBuilder | None = None) -> Trajectory:
    """The trajectory with token rows: its own if they are tokens of this renderer, else rendered from its actions.

    What a model with another tokenizer sampled counts as rendered then: its log-probs are of other tokens. Without
    rows where the renderer cannot write an action, or none could be read: there is nothing to learn from it.
    """
    if trajectory.rows and matches_tokenizer(trajectory, renderer):
        return trajectory
    try:
        rows = rendered_rows(trajectory, renderer, prompts)
    except RecordError:  # one foreign name must not end the training on all others
        rows = ()
    return replace(trajectory, rows=rows, origin="rendered", temperature=None, model_version="")

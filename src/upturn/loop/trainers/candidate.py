"""A training run's folder, options and outcome, and its weights as a version."""

from dataclasses import replace
from pathlib import Path

from upturn.loop.engine_runtime import ADAPTER_FOLDER
from upturn.loop.evaluation import configured_evaluation
from upturn.loop.progress import curve_reporter
from upturn.loop.rollouts import PolicyWorker
from upturn.loop.run import Context, store_agent_version
from upturn.records import AgentVersion, Result, record
from upturn.report.training import (
    attention_sentence,
    kept_weights_sentence,
    read_training,
    score_sentence,
    stop_sentences,
    write_training_report,
)
from upturn.training import EpochSettings, IterationSettings
from upturn.training.runs import DESCRIPTION_FILE, WARM_UP_FOLDER, RunOptions, Tracking


def training_folder(context: Context, name: str) -> Path:
    """Folder of the training step ``name``, with its report."""
    return context.run_dir / "training" / name


def has_run(context: Context, name: str) -> bool:
    """Whether the step ``name`` trained in a folder of its own."""
    return (training_folder(context, name) / DESCRIPTION_FILE).is_file()


def run_options(
    context: Context, worker: PolicyWorker, name: str, settings: EpochSettings | IterationSettings, **figures: str
) -> RunOptions:
    """Options of the training step ``name``, with model selection as the settings have it.

    ``figures``: the metrics that progress shows, by their displayed names.
    """
    return RunOptions(
        context.seed,
        training_folder(context, name),
        evaluate=configured_evaluation(context, worker, name, settings),
        progress=curve_reporter(context.progress, **figures),
        tracking=configured_tracking(context, name),
    )


def configured_tracking(context: Context, name: str) -> Tracking | None:
    """The services that receive the curve of the training step ``name``; None means none."""
    trackers = context.config.trackers
    if not trackers.use:
        return None
    return Tracking(trackers.use, trackers.project, f"{trackers.name or context.run_id}/{name}")


def training_summary(context: Context, name: str) -> str:
    """How far the training step ``name`` got, why it stopped, and which weights were selected by which measure."""
    folder = training_folder(context, name)
    report = read_training(folder)
    warm_up = ""
    if report.has_warm_up:
        warm_up = f"Supervised warm-up: {stop_sentences(read_training(folder / WARM_UP_FOLDER))} RL training:"
    return " ".join(
        filter(
            None,
            (
                warm_up,
                stop_sentences(report),
                kept_weights_sentence(report),
                score_sentence(report),
                attention_sentence(report),
            ),
        )
    )


def limits_summary(context: Context, name: str) -> str:
    """How cost limits ended a training run and which weights were kept; empty if they did not."""
    report = read_training(training_folder(context, name))
    if report.outcome is None or report.outcome.stopped != "limit":
        return ""
    return f"{stop_sentences(report)} {kept_weights_sentence(report)}"


def save_candidate(
    context: Context, worker: PolicyWorker, parent: AgentVersion, name: str, *, snapshot: str | None = None
) -> AgentVersion:
    """Saves the worker's weights as a folder of the run and a version in the pool; writes the training report.

    An adapter is merged into them, and saved in the subfolder ``adapter`` too, with its base by path.
    """
    from upturn.models import model_folder
    from upturn.models.engine import lora_layers
    from upturn.training.optimisation import save_adapter
    from upturn.training.runs import save_version

    if has_run(context, name):
        write_training_report(training_folder(context, name))
    slug = name.replace("/", "-")
    folder = context.run_dir / "versions" / slug
    digest = save_version(worker.whole_model(), folder, companions=model_folder(parent.model))
    if lora_layers(worker.model):
        save_adapter(worker.model, folder / ADAPTER_FOLDER)
    version = replace(
        parent,
        version=f"{slug}-{digest[:8]}",
        model=str(folder),
        weights_hash=digest,
        parent=parent.id,
        snapshot=snapshot or parent.snapshot,
        run=context.run_id,
        tenants=(context.tenant,),
    )
    return store_agent_version(context.pool, version)


@record
class TrainedVersion:
    """The version that training made, and its figures besides held-out evaluations."""

    version: AgentVersion
    """The trained agent's incumbent where no weights were kept."""
    results: tuple[Result, ...] = ()
    lines: tuple[str, ...] = ()
    """For the card."""
    made: str = ""
    """Folder of what was made instead of a version, such as a reward model; empty = a version, or nothing."""

"""What a training run leaves behind: its folder, how it ended, and its weights as a version."""

from dataclasses import replace
from pathlib import Path

from upturn.loop.rollouts import PolicyWorker
from upturn.loop.run import Context, keep_agent_version
from upturn.records import AgentVersion, Result, record
from upturn.report.training import (
    kept_weights_sentence,
    read_training,
    score_sentence,
    stop_sentences,
    write_training_report,
)
from upturn.training.runs import DESCRIPTION_FILE, WARM_UP_FOLDER

ADAPTER_FOLDER = "adapter"
"""Within a version's."""


def training_folder(context: Context, name: str) -> Path:
    """Where the training run of a step lies, with its report."""
    return context.run_dir / "training" / name


def has_run(context: Context, name: str) -> bool:
    """Whether a step of that name trained in a folder of its own."""
    return (training_folder(context, name) / DESCRIPTION_FILE).is_file()


def training_summary(context: Context, name: str) -> str:
    """How far a training run got, why it stopped there, which weights came out of it, and what chose them."""
    folder = training_folder(context, name)
    found = read_training(folder)
    chosen = " ".join(filter(None, (kept_weights_sentence(found), score_sentence(found))))
    if not found.has_warm_up:
        return f"{stop_sentences(found)} {chosen}".rstrip()
    warm_up = (
        f"A supervised warm-up went before. {stop_sentences(read_training(folder / WARM_UP_FOLDER))} Then practice "
        "began."
    )
    return f"{warm_up} {stop_sentences(found)} {chosen}".rstrip()


def limits_summary(context: Context, name: str) -> str:
    """How limits on costs ended a training run, and what was kept of it; empty = they did not."""
    found = read_training(training_folder(context, name))
    if found.outcome is None or found.outcome.stopped != "limit":
        return ""
    return f"{stop_sentences(found)} {kept_weights_sentence(found)}"


def keep_version(
    context: Context, worker: PolicyWorker, parent: AgentVersion, name: str, *, snapshot: str | None = None
) -> AgentVersion:
    """The worker's weights as a folder of the run and a version in the pool; draws the training run's page.

    An adapter is merged into them; it lies beside them too, in the folder ``adapter``, with its base by path.
    """
    from upturn.models import model_folder
    from upturn.models.engine import lora_layers
    from upturn.training.optimisation import save_adapter
    from upturn.training.runs import save_version

    if has_run(context, name):
        write_training_report(training_folder(context, name))
    folder = context.run_dir / "versions" / name.replace("/", "-")
    digest = save_version(worker.model, folder, companions=model_folder(parent.model))
    if lora_layers(worker.model):
        save_adapter(worker.model, folder / ADAPTER_FOLDER)
    version = replace(
        parent,
        version=f"{name.replace('/', '-')}-{digest[:8]}",
        model=str(folder),
        weights_hash=digest,
        parent=parent.id,
        snapshot=snapshot or parent.snapshot,
        run=context.run_id,
        tenants=(context.tenant,),
    )
    return keep_agent_version(context.pool, version)


@record
class Learned:
    """The version, and what there is to say of it beside its held-out evaluations."""

    version: AgentVersion
    """The one that was trained where nothing was kept."""
    results: tuple[Result, ...] = ()
    lines: tuple[str, ...] = ()
    """For the card."""

"""What the two kinds of reward models share: held-out tasks, saving, and the figures of the card."""

import hashlib
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from upturn import __version__
from upturn.agents import template_options
from upturn.config import Config
from upturn.errors import ConfigError, TrainingError
from upturn.loop.run import Context
from upturn.loop.trainers.candidate import TrainedVersion, training_folder
from upturn.models import model_folder
from upturn.records import AgentVersion, Result
from upturn.report.training import write_training_report
from upturn.training.reward_models import Aggregation, RewardModelDescription, StoredDescription

if TYPE_CHECKING:
    from transformers import PreTrainedModel

HELD_OUT = 8
"""One task in this many is held out."""
FOLDER = "reward-models"
"""In a run's folder."""
CARD = "card.md"


def hold_out_tasks(task_ids: Iterable[str], what: str) -> frozenset[str]:
    """The tasks that are held out: one in ``HELD_OUT``, at least one, chosen by a hash of their ids.

    ``what``: the data, for the TrainingError where all of it is of one task.
    """
    tasks = sorted(set(task_ids), key=lambda task: hashlib.blake2b(task.encode(), digest_size=8).digest())
    if len(tasks) < 2:
        raise TrainingError(
            f"all {what} are of one task, so none can be held out, and the reward model could not be evaluated; "
            "use a pool with more tasks"
        )
    return frozenset(tasks[: max(1, len(tasks) // HELD_OUT)])


def describe_model(
    context: Context, parent: AgentVersion, *, offset: float, aggregation: Aggregation | None, snapshot: str
) -> RewardModelDescription:
    """The description of a model trained from the parent's; ``aggregation`` None means an outcome model."""
    return RewardModelDescription(
        "outcome" if aggregation is None else "process",
        offset,
        aggregation,
        parent.id,
        prompt=parent.prompt,
        template_options=template_options(parent),
        tenants=(context.tenant,),
        snapshot=snapshot,
    )


class Figures(NamedTuple):
    """The figures of a reward model on held-out data."""

    results: Sequence[Result]
    sentences: Sequence[str]
    """The same for people."""


def save_trained(
    context: Context,
    parent: AgentVersion,
    name: str,
    *,
    model: "PreTrainedModel",
    description: RewardModelDescription,
    figures: Figures,
) -> TrainedVersion:
    """The unchanged parent, after saving the model and its card in the run's folder, and the training report."""
    from upturn.training.reward_models import save_reward_model

    write_training_report(training_folder(context, name))
    folder = context.run_dir / FOLDER / name
    stored = save_reward_model(model, folder, description, companions=model_folder(parent.model))
    usage = (
        f"The reward model is `{folder}` ({description.kind}, `{stored.id}`). To train on it, weigh the component "
        f"`model:{folder}` in `[rewards] weights`."
    )
    sentences = (usage, "", *figures.sentences)
    card = _card(stored, sentences, f"`upturn train {name}`, seed {context.seed}")
    (folder / CARD).write_text(card, encoding="utf-8")
    return TrainedVersion(parent, tuple(figures.results), ("", *sentences), str(folder))


def _card(stored: StoredDescription, sentences: Sequence[str], algorithm: str) -> str:
    """The card as Markdown."""
    description = stored.description
    by_turn = f" after each turn; the trajectory's is the {description.aggregation}"
    table = {
        "algorithm": algorithm,
        "trained from": f"`{description.base}`",
        "training data": f"snapshot `{description.snapshot}`",
        "tenants": ", ".join(description.tenants),
        "weights": f"`{stored.weights_hash}`, for `AutoModelForSequenceClassification` with one label",
        "score": f"σ(z − b) of the output z, b = {description.offset:.6g}"
        + (by_turn if description.aggregation else ""),
        "Upturn": __version__,
    }
    rows = (f"| {key} | {value} |" for key, value in table.items())
    return "\n".join(["# Reward model", "", *sentences, "", "| | |", "|---|---|", *rows]) + "\n"


def one_process(config: Config) -> None:  # noqa: ARG001  # the signature of ``Algorithm.check_ranks``
    """Raises ConfigError: a reward model is trained in a single process."""
    raise ConfigError(["a reward model is trained in one process; start it without a launcher"])

"""What the folder of a reward model says about it besides its weights. No torch here."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import Literal, NamedTuple

from upturn.errors import ModelError, RecordError
from upturn.records import JsonValue, fields_json, from_fields, record
from upturn.training.runs import MARKER

RewardKind = Literal["outcome", "process"]
"""``outcome``: one score after the last turn. ``process``: the probability of success after each turn."""
Aggregation = Literal["min", "product", "last", "mean"]
"""How the probabilities of turns become one score. ``min``: Math-Shepherd (arXiv 2312.08935, section 3.4);
``product``: Let's Verify Step by Step (arXiv 2305.20050); ``last``: arXiv 2408.03314."""


@record
class RewardModelDescription:
    """A reward model besides its weights."""

    kind: RewardKind
    offset: float
    """Subtracted from the model's output z, which is a log-odds: a trajectory or turn scores σ(z − offset).
    ``outcome``: the mean output over the training pairs, so a trajectory scores the Bradley–Terry probability that
    it is better than one of average output (PAR, arXiv 2502.18770, with the average as its reference).
    ``process``: minus the bias of the output layer, which the weights' format does not have."""
    aggregation: Aggregation | None
    """None = an outcome model."""
    base: str
    """Id of the agent version whose model was trained."""
    prompt: str = ""
    """System prompt of trajectories that are rendered for the model."""
    template_options: Mapping[str, JsonValue] = field(default_factory=dict)
    """Options of the chat template in this case."""
    tenants: tuple[str, ...] = ()
    """Whose data it was trained on; it scores trajectories of no others."""
    snapshot: str = ""
    """Id of the snapshot of this data; empty = unknown."""


class StoredDescription(NamedTuple):
    """The description in a folder."""

    description: RewardModelDescription
    weights_hash: str

    @property
    def id(self) -> str:
        """Eight hex digits over weights and description: equal digits, equal scores."""
        content = f"{self.weights_hash} {fields_json(self.description)}"
        return hashlib.blake2b(content.encode(), digest_size=4).hexdigest()


def read_description(folder: Path) -> StoredDescription:
    """Returns what a reward model's folder says; raises ModelError where it is not one, or is damaged."""
    path = folder / MARKER
    try:
        marker = json.loads(path.read_text())
        stored = from_fields(RewardModelDescription, json.dumps(marker["reward_model"]))
        return StoredDescription(stored, str(marker["weights_hash"]))
    except (OSError, ValueError, KeyError, TypeError, RecordError) as exc:
        raise ModelError(
            f"{str(folder)!r} is not the folder of a reward model: {str(path)!r} cannot be read ({exc}); give one "
            "that `upturn train reward-model` or `upturn train process-reward` wrote"
        ) from exc

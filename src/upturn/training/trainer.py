"""The optimiser loop that serves every algorithm: rows in, one AdamW step out, plus what happened.

It knows streams, not algorithms; how log-probabilities are computed is ``upturn.training.forward``'s. Dropout is
refused: it would make the trainer another policy than the sampler, and resuming inexact.
"""

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from upturn.errors import TrainingError
from upturn.training.batch import MicroBatch
from upturn.training.fitness import refuse_random
from upturn.training.forward import Forward
from upturn.training.loss import TokenBatch
from upturn.training.row import FloatArray, TrainingRow
from upturn.training.schedule import warmup_factor
from upturn.training.settings import OptimiserSettings
from upturn.training.stream import Minibatch, Stream


class StepMetrics(NamedTuple):
    """What one optimiser step did."""

    loss: float
    grad_norm: float
    """Before clipping."""
    learning_rate: float
    logical_tokens: int
    """Tokens of the rows as recorded."""
    needed_tokens: int
    """Tokens of the rows up to the last one written."""
    physical_tokens: int
    """Positions that went through the model: shared beginnings once, padding included."""
    action_tokens: int
    """Written tokens."""
    fallbacks: int
    """Micro-batches computed padded though a tree was asked for."""
    verify_gap: float
    """Largest |Δ log p| between tree and padded pass when the tree pass was last checked; NaN = it was not."""
    sums: Mapping[str, float]
    """The objectives' statistics, added up over the tokens."""
    maxima: Mapping[str, float]
    seconds: float


@dataclass(slots=True)
class _Tally:
    """What the micro-batches of a step add up to."""

    loss: float = 0.0
    logical_tokens: int = 0
    needed_tokens: int = 0
    physical_tokens: int = 0
    action_tokens: int = 0


class Trainer:
    """One model, one AdamW. Single use: one run. The model's weights change in place."""

    def __init__(
        self,
        model: PreTrainedModel,
        settings: OptimiserSettings,
        learning_rate_factor: Callable[[int], float] | None = None,
    ) -> None:
        """``learning_rate_factor`` of the number of steps done; None = warm-up, then constant."""
        refuse_random(model)
        self.model = model
        self.settings = settings
        self.steps = 0
        self.parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
        if not self.parameters:
            raise TrainingError("the model has no trainable parameter; unfreeze some")
        self._factor = learning_rate_factor or (lambda step: warmup_factor(step, settings.warmup_steps))
        self.optimiser = torch.optim.AdamW(
            self.parameters,
            lr=settings.learning_rate,
            betas=(settings.beta1, settings.beta2),
            weight_decay=settings.weight_decay,
            fused=True,
        )
        self.forward = Forward(model, packing=settings.packing, precision=settings.precision)
        if settings.gradient_checkpointing:
            _checkpoint_activations(model)

    def step(self, minibatch: Minibatch) -> StepMetrics:
        """One optimiser step down the sum of the streams' losses.

        Raises TrainingError, with the weights untouched, for empty streams and for a loss that is not finite.
        """
        started = time.perf_counter()
        _refuse_empty(minibatch)
        self.model.train()
        self.optimiser.zero_grad(set_to_none=True)
        tally, sums, maxima = _Tally(), dict[str, float](), dict[str, float]()
        fallbacks = self.forward.fallbacks
        for stream in minibatch:
            for batch in self.forward.batches(stream.rows, self.settings.micro_batch_tokens):
                self._backward(stream, batch, tally, sums=sums, maxima=maxima)
        grad_norm = float(nn.utils.clip_grad_norm_(self.parameters, self.settings.max_grad_norm))
        if not (math.isfinite(grad_norm) and math.isfinite(tally.loss)):
            raise TrainingError(
                f"step {self.steps + 1} has loss {tally.loss!r} and gradient norm {grad_norm!r}; the weights are "
                "left as they were. Lower the learning rate, or look for log-probs of another model in the rows"
            )
        learning_rate = self.settings.learning_rate * self._factor(self.steps)
        for group in self.optimiser.param_groups:
            group["lr"] = learning_rate
        self.optimiser.step()
        self.steps += 1
        return StepMetrics(
            tally.loss,
            grad_norm,
            learning_rate,
            tally.logical_tokens,
            tally.needed_tokens,
            tally.physical_tokens,
            tally.action_tokens,
            self.forward.fallbacks - fallbacks,
            math.nan if self.forward.verification is None else self.forward.verification.logprob_gap,
            sums,
            maxima,
            time.perf_counter() - started,
        )

    @torch.no_grad()
    def score(self, rows: Sequence[TrainingRow]) -> list[FloatArray]:
        """``(A,)`` for each row: log π of its written tokens under the weights as they are, without gradient."""
        found: dict[int, FloatArray] = {}
        self.model.train()  # as in ``step``; there is no dropout, and nothing else differs
        for batch in self.forward.batches(rows, self.settings.micro_batch_tokens):
            with self.forward.computing(batch):
                logprobs = self.forward.logprobs(batch).cpu().numpy()
            ends = np.cumsum([len(row.positions) for row in batch.rows])
            for row, part in zip(batch.rows, np.split(logprobs, ends[:-1]), strict=True):
                found[id(row)] = part
        return [found[id(row)] for row in rows]

    def state(self) -> dict[str, Tensor]:
        """The optimiser's tensors by name, not copied; with the weights and ``steps`` this is all of its state."""
        return {
            f"{index}.{key}": value
            for index, entries in self.optimiser.state_dict()["state"].items()
            for key, value in entries.items()
        }

    def load_state(self, tensors: Mapping[str, Tensor], steps: int) -> None:
        """Goes back to a state that ``state`` gave after ``steps`` steps."""
        state: dict[int, dict[str, Tensor]] = {}
        for name, value in tensors.items():
            index, key = name.split(".", 1)
            state.setdefault(int(index), {})[key] = value
        groups: Any = self.optimiser.state_dict()["param_groups"]
        self.optimiser.load_state_dict({"state": state, "param_groups": groups})
        self.steps = steps

    def _backward(
        self, stream: Stream, batch: MicroBatch, tally: _Tally, *, sums: dict[str, float], maxima: dict[str, float]
    ) -> None:
        with self.forward.computing(batch):
            logprobs = self.forward.logprobs(batch)
            device, written = logprobs.device, batch.written
            weights = torch.from_numpy(written.weights).to(device)
            tokens = TokenBatch(
                logprobs,
                torch.from_numpy(written.old_logprobs).to(device),
                weights,
                torch.ones_like(weights, dtype=torch.bool),
                torch.from_numpy(written.corrections).to(device),
                torch.from_numpy(written.reference_logprobs).to(device),
                torch.from_numpy(written.sequences).to(device),
                torch.from_numpy(written.turns).to(device),
            )
            scales = torch.from_numpy(written.scales).to(device)
            loss = (stream.objective.losses(tokens) * scales).sum() / stream.denominator
            loss.backward()
        seen = stream.objective.statistics(tokens._replace(logprobs=logprobs.detach()))
        for name, value in seen.sums.items():
            sums[name] = sums.get(name, 0.0) + value
        for name, value in seen.maxima.items():
            maxima[name] = max(maxima.get(name, value), value)
        tally.loss += float(loss.detach())
        tally.logical_tokens += batch.logical_tokens
        tally.needed_tokens += batch.needed_tokens
        tally.physical_tokens += batch.input_ids.size
        tally.action_tokens += batch.written.targets.size


@contextmanager
def torch_threads(threads: int | None) -> Iterator[None]:
    """Torch uses this many threads inside (None = no change); the number is put back afterwards."""
    before = torch.get_num_threads()
    if threads is not None:
        torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _checkpoint_activations(model: Any) -> None:  # the method's name depends on the version of transformers
    if hasattr(model, "activation_checkpointing_enable"):
        model.activation_checkpointing_enable({"use_reentrant": False})
    else:
        model.gradient_checkpointing_enable({"use_reentrant": False})


def _refuse_empty(minibatch: Sequence[Stream]) -> None:
    if not any(stream.rows for stream in minibatch):
        raise TrainingError("a minibatch without rows cannot be trained on; leave it out")
    for stream in minibatch:
        if not stream.denominator > 0:
            raise TrainingError(f"a stream's denominator must be positive, got {stream.denominator!r}")

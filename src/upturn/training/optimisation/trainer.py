"""The optimiser step of every algorithm: rows in, one AdamW step and its metrics out.

It works on streams of rows, not on algorithms; ``forward`` computes the log-probabilities. For a sharded model each
process computes its share of the micro-batches, and all report the same metrics. Dropout is refused: it would make
the trainer a different policy than the sampler, and resuming inexact.
"""

import math
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedModel

from upturn.config import OptimiserSettings
from upturn.errors import TrainingError
from upturn.training.distributed import all_gather, world_of
from upturn.training.loss import TokenBatch, apply_mask
from upturn.training.optimisation.adapter import without_adapter
from upturn.training.optimisation.batch import MicroBatch
from upturn.training.optimisation.forward import Forward
from upturn.training.optimisation.load_balance import balance, smallest_batch, split_for_ranks
from upturn.training.optimisation.logprob_head import Read, chosen_logprobs
from upturn.training.optimisation.model_support import refuse_random
from upturn.training.optimisation.optimiser import WeightOptimiser
from upturn.training.optimisation.recomputation import recompute
from upturn.training.optimisation.schedule import warmup_factor
from upturn.training.optimisation.teacher_divergence import DistributionTeacher
from upturn.training.row import FloatArray, TrainingRow
from upturn.training.stream import Minibatch, Stream


class StepMetrics(NamedTuple):
    """The metrics of one optimiser step."""

    loss: float
    grad_norm: float
    """Before clipping."""
    learning_rate: float
    logical_tokens: int
    """Tokens of the rows as recorded."""
    needed_tokens: int
    """Tokens of the rows up to the last written one."""
    physical_tokens: int
    """Positions computed by the model: shared prefixes once, padding included."""
    action_tokens: int
    """Written tokens."""
    fallbacks: int
    """Micro-batches computed padded although ``tree`` packing was requested."""
    verify_gap: float
    """Largest |Δ log p| between tree and padded pass at the last verification; NaN = none."""
    sums: Mapping[str, float]
    """The objectives' statistics, summed over the tokens."""
    maxima: Mapping[str, float]
    seconds: float
    counts: Mapping[str, float]
    """Denominators of ``sums`` by the same names: written tokens of the streams that report them, or another count
    of the objective."""
    attention: Mapping[str, int]
    """``physical_tokens`` by the attention that computed them: the tree's backend, or ``padded``."""


@dataclass(slots=True)
class _Tally:
    """The sums over the micro-batches of a step."""

    loss: float = 0.0
    logical_tokens: int = 0
    needed_tokens: int = 0
    physical_tokens: int = 0
    action_tokens: int = 0
    sums: dict[str, float] = field(default_factory=dict)
    counts: dict[str, float] = field(default_factory=dict)
    attention: dict[str, int] = field(default_factory=dict)
    maxima: dict[str, float] = field(default_factory=dict)

    def add(self, other: "_Tally") -> None:
        """Adds the sums of further micro-batches of the same step."""
        self.loss += other.loss
        self.logical_tokens += other.logical_tokens
        self.needed_tokens += other.needed_tokens
        self.physical_tokens += other.physical_tokens
        self.action_tokens += other.action_tokens
        for totals, more in ((self.sums, other.sums), (self.counts, other.counts)):
            for name, value in more.items():
                totals[name] = totals.get(name, 0.0) + value
        for name, value in other.maxima.items():
            self.maxima[name] = max(self.maxima.get(name, value), value)
        for name, tokens in other.attention.items():
            self.attention[name] = self.attention.get(name, 0) + tokens


class Trainer:
    """One model, one AdamW. Single use: one run. The model's weights change in place."""

    def __init__(
        self,
        model: PreTrainedModel,
        settings: OptimiserSettings,
        learning_rate_factor: Callable[[int], float] | None = None,
        *,
        read: Read = chosen_logprobs,
        teacher: DistributionTeacher | None = None,
    ) -> None:
        """``learning_rate_factor``: of the number of steps done; None = warm-up, then constant.

        ``read``: what objectives get as ``logprobs``, and what ``score`` returns: a critic reads values.
        ``teacher``: gives objectives their ``divergences``; None = none.
        """
        refuse_random(model)
        if teacher is not None:
            teacher.check(model)
        self._teacher = teacher
        self.model = model
        self.settings = settings
        self.world = world_of(model)
        """The process group that trains it; None = a single process."""
        self.steps = 0
        self.parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
        if not self.parameters:
            raise TrainingError("the model has no trainable parameter; unfreeze some")
        self._factor = learning_rate_factor or (lambda step: warmup_factor(step, settings.warmup_steps))
        self.optimiser = WeightOptimiser(self.parameters, settings, self.world)
        self.forward = Forward(model, packing=settings.packing, precision=settings.precision, read=read)
        self._has_warned = False
        recompute(model, settings.gradient_checkpointing)

    def step(self, minibatch: Minibatch) -> StepMetrics:
        """One optimiser step down the sum of the streams' losses.

        Raises TrainingError, with the weights untouched, for empty streams and for a loss that is not finite.
        """
        started = time.perf_counter()
        _check_minibatch(minibatch)
        self.model.train()
        tally = _Tally()
        fallbacks = self.forward.fallbacks
        with self.optimiser.collect():
            for stream in minibatch:
                for batch in self._local_batches(stream.rows):
                    if batch is None:
                        self._dummy_backward(stream.rows)
                    else:
                        tally.add(self._backward(stream, batch))
        tally = self._sum_over_ranks(tally)
        grad_norm = self.optimiser.clip(self.settings.max_grad_norm)
        if not (math.isfinite(grad_norm) and math.isfinite(tally.loss)):
            raise TrainingError(
                f"step {self.steps + 1} has loss {tally.loss!r} and gradient norm {grad_norm!r}; the weights are "
                "unchanged. Lower the learning rate, or look for log-probs of another model in the rows"
            )
        learning_rate = self.settings.learning_rate * self._factor(self.steps)
        self.optimiser.step(learning_rate, self.steps)
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
            tally.sums,
            tally.maxima,
            time.perf_counter() - started,
            tally.counts,
            tally.attention,
        )

    @torch.no_grad()
    def score(self, rows: Sequence[TrainingRow]) -> list[FloatArray]:
        """``(A,)`` for each row: log π of its written tokens under the current weights, at the row's
        temperature, without gradient."""
        return self._score(rows, nullcontext())

    @torch.no_grad()
    def score_without_adapter(self, rows: Sequence[TrainingRow]) -> list[FloatArray]:
        """As ``score``, of the model without its adapter."""
        return self._score(rows, without_adapter(self.model))

    def _score(self, rows: Sequence[TrainingRow], context: AbstractContextManager[None]) -> list[FloatArray]:
        index_of = {id(row): index for index, row in enumerate(rows)}
        local: dict[int, FloatArray] = {}
        self.model.train()  # as in ``step``; there is no dropout, and nothing else differs
        batches = self._local_batches(rows)  # may compare gradients, which an adapter that is off lacks
        with context:
            for batch in batches:
                if batch is None:
                    self._dummy_backward(rows)
                    continue
                with self.forward.prepare(batch):
                    logprobs = self.forward.logprobs(batch).cpu().numpy()
                ends = np.cumsum([len(row.positions) for row in batch.rows])
                for row, part in zip(batch.rows, np.split(logprobs, ends[:-1]), strict=True):
                    local[index_of[id(row)]] = part
        scored = {index: part for share in all_gather(self.world, local) for index, part in share.items()}
        return [scored[index_of[id(row)]] for row in rows]

    def state(self) -> dict[str, Tensor]:
        """The optimiser's tensors by name, not copied; with weights and ``steps`` this is the whole state."""
        return self.optimiser.state()

    def parameter_of(self, name: str) -> Tensor | None:
        """The parameter with the layout of this tensor of ``state``; None = the tensor is a number."""
        index, key = name.split(".", 1)
        return None if key == "step" else self.parameters[int(index)]

    def load_state(self, tensors: Mapping[str, Tensor], steps: int) -> None:
        """Restores a state from ``state`` after ``steps`` steps; full tensors are sharded where necessary."""
        self.optimiser.load_state(tensors)
        self.steps = steps

    def _local_batches(self, rows: Sequence[TrainingRow]) -> list[MicroBatch | None]:
        """The micro-batches of this process; None = a round without one, with a dummy pass."""
        world, budget = self.world, self.settings.micro_batch_tokens
        if world is None:
            return list(self.forward.batches(rows, budget))
        before = self.forward.fallbacks

        def batches(max_tokens: int) -> Sequence[MicroBatch]:
            self.forward.fallbacks = before  # count only the final split
            return self.forward.batches(rows, max_tokens)

        all_batches = split_for_ranks(batches, budget, world.size)
        if 0 < len(all_batches) < world.size and world.is_first and not self._has_warned:
            self._has_warned = True
            warnings.warn(
                f"{world.size} processes share minibatches of {len(all_batches)} micro-batches, so some compute "
                "nothing (slower, same result): use larger minibatches or fewer processes",
                stacklevel=3,
            )
        indices = balance([batch.input_ids.size for batch in all_batches], world.size)[world.rank]
        return [None if index is None else all_batches[index] for index in indices]

    def _dummy_backward(self, rows: Sequence[TrainingRow]) -> None:
        """A pass that adds exactly 0 to every gradient: the other ranks need this rank's shards of the weights."""
        batch = smallest_batch(rows)
        with self.forward.prepare(batch):
            logprobs = self.forward.logprobs(batch)
            if torch.is_grad_enabled():
                apply_mask(logprobs, torch.zeros_like(logprobs, dtype=torch.bool)).sum().backward()

    def _sum_over_ranks(self, local: _Tally) -> _Tally:
        """The step's tally summed over all processes in rank order, so that all have the same."""
        if self.world is None:
            return local
        total = _Tally()
        for tally in all_gather(self.world, local):
            total.add(tally)
        return total

    def _backward(self, stream: Stream, batch: MicroBatch) -> _Tally:
        with self.forward.prepare(batch):
            entropies = divergences = None
            if self._teacher is not None:
                logprobs, divergences, entropies = self._teacher.outputs(self.forward, batch)
            elif stream.has_entropies:
                logprobs, entropies = self.forward.logprobs_and_entropies(batch)
            else:
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
                torch.from_numpy(written.pairs).to(device),
                entropies,
                divergences,
            )
            scales = torch.from_numpy(written.scales).to(device)
            loss = (stream.objective.losses(tokens) * scales).sum() / stream.denominator
            loss.backward()
        detached = None if entropies is None else entropies.detach()
        statistics = stream.objective.statistics(tokens._replace(logprobs=logprobs.detach(), entropies=detached))
        count = float(written.targets.size) if statistics.counted is None else statistics.counted
        return _Tally(
            float(loss.detach()),
            batch.logical_tokens,
            batch.needed_tokens,
            batch.input_ids.size,
            written.targets.size,
            dict(statistics.sums),
            dict.fromkeys(statistics.sums, count),
            {self.forward.attention_of(batch): batch.input_ids.size},
            dict(statistics.maxima),
        )


@contextmanager
def torch_threads(threads: int | None) -> Iterator[None]:
    """Sets torch's number of threads within the context; None = no change."""
    before = torch.get_num_threads()
    if threads is not None:
        torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _check_minibatch(minibatch: Sequence[Stream]) -> None:
    if not any(stream.rows for stream in minibatch):
        raise TrainingError("a minibatch without rows cannot be trained on; skip it")
    for stream in minibatch:
        if not stream.denominator > 0:
            raise TrainingError(f"a stream's denominator must be positive, got {stream.denominator!r}")

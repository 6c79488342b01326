"""The optimiser loop that serves every algorithm: rows in, one AdamW step out, plus what happened.

It knows streams, not algorithms. The vocabulary head runs only where a written token is predicted; rows are
right-padded under causal attention, so no attention mask is made. Dropout is refused: it would make the trainer
another policy than the sampler, and resuming inexact.
"""

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from upturn.errors import TrainingError
from upturn.training.batch import MicroBatch, micro_batches
from upturn.training.loss import TokenBatch
from upturn.training.schedule import warmup_factor
from upturn.training.settings import OptimiserSettings
from upturn.training.stream import Minibatch, Stream

_HEAD_TOLERANCE = 1e-3
"""Largest difference in log-probability between our head and the model's own that rounding explains (float32
gives about 1e-6, a model with scaled or capped logits far more)."""


class StepMetrics(NamedTuple):
    """What one optimiser step did."""

    loss: float
    grad_norm: float
    """Before clipping."""
    learning_rate: float
    logical_tokens: int
    """Tokens of the rows as recorded."""
    computed_tokens: int
    """Positions that went through the model, padding included."""
    action_tokens: int
    """Written tokens."""
    sums: Mapping[str, float]
    """The objectives' statistics, added up over the tokens."""
    maxima: Mapping[str, float]
    seconds: float


@dataclass(slots=True)
class _Tally:
    """What the micro-batches of a step add up to."""

    loss: float = 0.0
    logical_tokens: int = 0
    computed_tokens: int = 0
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
        _refuse_dropout(model)
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
        self._is_head_checked = False

    def step(self, minibatch: Minibatch) -> StepMetrics:
        """One optimiser step down the sum of the streams' losses.

        Raises TrainingError, with the weights untouched, for empty streams and for a loss that is not finite.
        """
        started = time.perf_counter()
        _refuse_empty(minibatch)
        self.model.train()
        self.optimiser.zero_grad(set_to_none=True)
        tally, sums, maxima = _Tally(), dict[str, float](), dict[str, float]()
        for stream in minibatch:
            for batch in micro_batches(stream.rows, self.settings.micro_batch_tokens):
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
            tally.computed_tokens,
            tally.action_tokens,
            sums,
            maxima,
            time.perf_counter() - started,
        )

    def logprobs(self, batch: MicroBatch) -> Tensor:
        """``(N,)``: log π of the micro-batch's targets, at temperature 1, in float32; carries the gradient."""
        self._check_inputs(batch)
        device = self.parameters[0].device
        backbone, head = _parts(self.model)
        input_ids = torch.from_numpy(batch.input_ids).to(device)
        if not self._is_head_checked:
            self._check_head(input_ids[:1])
        hidden = backbone(input_ids=input_ids, attention_mask=None, use_cache=False).last_hidden_state
        chosen = hidden.flatten(0, 1).index_select(0, torch.from_numpy(batch.predictors).to(device))
        targets = torch.from_numpy(batch.written.targets).to(device)
        return -nn.functional.cross_entropy(head(chosen).float(), targets, reduction="none")

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
        logprobs = self.logprobs(batch)
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
        tally.computed_tokens += batch.input_ids.size
        tally.action_tokens += batch.written.targets.size

    def _check_inputs(self, batch: MicroBatch) -> None:
        config: Any = self.model.config  # configurations of transformers are open-ended
        context = getattr(config, "max_position_embeddings", None)
        if context is not None and batch.input_ids.shape[1] > context:
            raise TrainingError(
                f"a row needs {batch.input_ids.shape[1]} tokens of context, the model has {context}; "
                "limit the rollout's tokens or leave the row out"
            )
        highest = max(int(batch.input_ids.max()), int(batch.written.targets.max()))
        lowest = min(int(batch.input_ids.min()), int(batch.written.targets.min()))
        if lowest < 0 or highest >= config.vocab_size:
            raise TrainingError(
                f"token ids run from {lowest} to {highest}, the model knows 0 to {config.vocab_size - 1}; "
                "the rows belong to another model"
            )

    def _check_head(self, input_ids: Tensor) -> None:
        """Once per run: the backbone and the head alone must give what the whole model gives."""
        with torch.no_grad():
            backbone, head = _parts(self.model)
            ours = head(backbone(input_ids=input_ids, attention_mask=None, use_cache=False).last_hidden_state)
            whole = self.model(input_ids=input_ids, use_cache=False).logits
        difference = float((ours.float().log_softmax(-1) - whole.float().log_softmax(-1)).abs().max())
        if not difference <= _HEAD_TOLERANCE:
            raise TrainingError(
                f"{type(self.model).__name__} does more after its backbone than its output layer (log-probs differ "
                f"by {difference:.2g}); models with scaled or capped logits cannot be trained here"
            )
        self._is_head_checked = True


def _parts(model: PreTrainedModel) -> tuple[nn.Module, nn.Module]:
    """The backbone and the output layer."""
    return model.get_decoder(), model.get_output_embeddings()


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


def _refuse_dropout(model: PreTrainedModel) -> None:
    config: Any = model.config
    found = {
        name: module.p for name, module in model.named_modules() if isinstance(module, nn.Dropout) and module.p
    }
    if getattr(config, "attention_dropout", 0.0):
        found["attention_dropout"] = config.attention_dropout
    if found:
        name, rate = next(iter(found.items()))
        raise TrainingError(
            f"the model has dropout ({name} = {rate!r}): it would train another policy than the one that sampled; "
            "load it with dropout 0"
        )


def _refuse_empty(minibatch: Sequence[Stream]) -> None:
    if not any(stream.rows for stream in minibatch):
        raise TrainingError("a minibatch without rows cannot be trained on; leave it out")
    for stream in minibatch:
        if not stream.denominator > 0:
            raise TrainingError(f"a stream's denominator must be positive, got {stream.denominator!r}")

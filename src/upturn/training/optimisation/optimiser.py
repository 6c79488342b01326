"""AdamW on the trained weights: in place, or on float32 copies of weights in bfloat16 or on another device.

A weight in bfloat16 has 8 significant bits, so a step of less than 1/512 of it is rounded off, and training with
the usual learning rates stands still. Two ways out: the step is taken on a float32 *master copy*, of which the
weight is the rounded value (arXiv 1710.03740, section 3.1); or the copy exists for the step only and is rounded up
or down at random, with probabilities that make the mean exact (*stochastic rounding*, arXiv 2010.06192).

Copies are stepped one parameter at a time, so that temporary tensors are of one parameter.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils import get_total_norm

from upturn.config import OptimiserSettings
from upturn.errors import TrainingError
from upturn.models.engine import full_tensor
from upturn.training.distributed import World, shard_like

INSTALL_QUANTISED = "pip install 'upturn[quantised]'"
_HOST = torch.device("cpu")
_EMPTY = torch.empty(0)
_ROUNDED_BITS = 16
"""Bits of a float32 that bfloat16 lacks."""
_CONSTANTS = ("qmap1", "qmap2")
"""In bitsandbytes' state: the same tables for all tensors."""


class WeightOptimiser:
    """AdamW on the parameters of one model; what of it are copies follows from their type and the settings."""

    def __init__(
        self, parameters: Sequence[nn.Parameter], settings: OptimiserSettings, world: World | None = None
    ) -> None:
        """``world``: of sharded parameters. Raises TrainingError for settings that sharded ones do not support."""
        if world is not None:
            _refuse_sharded(settings)
        self._parameters = parameters
        self._settings = settings
        self._has_copies = settings.offload or any(parameter.dtype != torch.float32 for parameter in parameters)
        self._sums: list[Tensor | None] = [None] * len(parameters)
        """With copies: the gradients, summed in float32."""
        self._targets = list(parameters) if not self._has_copies else [self._empty_copy(p) for p in parameters]
        """What AdamW changes: the parameters, or their copies, which are empty while they are not needed."""
        groups = [self._targets] if not self._has_copies else [[target] for target in self._targets]
        self.adamw = [_adamw(group, settings) for group in groups]

    @contextmanager
    def collect(self) -> Iterator[None]:
        """Removes earlier gradients; gradients of backward passes within the context are summed."""
        self.free_gradients()
        if not self._has_copies:
            yield
            return
        hooks = [
            parameter.register_post_accumulate_grad_hook(lambda _, index=index: self._add_gradient(index))
            for index, parameter in enumerate(self._parameters)
        ]
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()

    def clip(self, longest: float) -> float:
        """Scales the gradient down to a 2-norm of ``longest``; its norm before that."""
        if not self._has_copies:
            return float(full_tensor(nn.utils.clip_grad_norm_(self._parameters, longest)))
        sums = [total for total in self._sums if total is not None]
        norm = get_total_norm(sums)
        factor = (longest / (norm + 1e-6)).clamp(max=1.0)
        for total in sums:
            total.mul_(factor)
        return float(norm)

    @torch.no_grad()
    def step(self, learning_rate: float, number: int) -> None:
        """Step ``number`` of the run, which decides the draws of stochastic rounding."""
        for adamw in self.adamw:
            for group in adamw.param_groups:
                group["lr"] = learning_rate
        if not self._has_copies:
            self.adamw[0].step()
            return
        for index, parameter in enumerate(self._parameters):
            if self._sums[index] is not None:
                self._step_copy(index, parameter, number)

    def free_gradients(self) -> None:
        """Frees the memory of all gradients."""
        self._sums = [None] * len(self._parameters)
        for parameter in self._parameters:
            parameter.grad = None

    def state(self) -> dict[str, Tensor]:
        """The tensors by name: moments, number of steps, master copies. Not copied."""
        tensors: dict[str, Tensor] = {}
        for index, (adamw, target) in enumerate(self._owners()):
            entries: Mapping[str, Any] = adamw.state.get(target, {})
            for key, value in entries.items():
                if key not in _CONSTANTS:
                    tensors[f"{index}.{key}"] = value if isinstance(value, Tensor) else torch.tensor(float(value))
            if self._has_copies and target.numel():
                tensors[f"{index}.master"] = target.detach()
        return tensors

    @torch.no_grad()
    def load_state(self, tensors: Mapping[str, Tensor]) -> None:
        """Restores a state from ``state``; an empty one is that of a new optimiser. Weights must be restored."""
        entries: dict[int, dict[str, Tensor]] = {}
        for name, value in tensors.items():
            number, key = name.split(".", 1)
            entries.setdefault(int(number), {})[key] = value
        for index, (adamw, target) in enumerate(self._owners()):
            adamw.state.pop(target, None)
            known = entries.get(index, {})
            if self._has_copies:
                target.data = known.pop("master", _EMPTY).to(target.device)
            if known:
                self._restore(index, adamw, known)

    def _owners(self) -> list[tuple[torch.optim.Optimizer, nn.Parameter]]:
        """AdamW and its target for each parameter."""
        owners = self.adamw if self._has_copies else self.adamw * len(self._targets)
        return list(zip(owners, self._targets, strict=True))

    def _restore(self, index: int, adamw: Any, entries: Mapping[str, Tensor]) -> None:
        """``adamw``: torch's or bitsandbytes'."""
        target = self._targets[index]
        if self._settings.moments == "float32":
            adamw.state[target] = {
                key: (value if key == "step" else shard_like(value, target)).to(target.device)
                for key, value in entries.items()
            }
            return
        with _filled(target, self._parameters[index]):  # the state's shapes are those of the target
            adamw.init_state(adamw.param_groups[0], target, 0, 0)
        for key, value in entries.items():
            if key == "step":
                adamw.state[target][key] = int(value)
            else:
                adamw.state[target][key].copy_(value)

    def _empty_copy(self, parameter: nn.Parameter) -> nn.Parameter:
        device = _HOST if self._settings.offload else parameter.device
        return nn.Parameter(_EMPTY.to(device, copy=True))

    def _add_gradient(self, index: int) -> None:
        parameter, total = self._parameters[index], self._sums[index]
        assert parameter.grad is not None
        gradient = parameter.grad.to(self._targets[index].device, torch.float32)
        self._sums[index] = gradient if total is None else total.add_(gradient)
        parameter.grad = None

    def _step_copy(self, index: int, parameter: nn.Parameter, number: int) -> None:
        target, is_kept = self._targets[index], self._settings.rounding == "master"
        # a copy whose rounded value is not the weight belongs to weights that were replaced since
        if not target.numel() or not torch.equal(target.to(parameter), parameter):
            target.data = parameter.detach().to(target.device, torch.float32, copy=True)
        target.grad, self._sums[index] = self._sums[index], None
        self.adamw[index].step()
        target.grad = None
        if is_kept or parameter.dtype == torch.float32:
            parameter.copy_(target)
        else:
            parameter.copy_(round_stochastically(target, seed=number << 20 | index))
        if not is_kept:
            target.data = _EMPTY.to(target.device)


def round_stochastically(values: Tensor, *, seed: int) -> Tensor:
    """The float32 values in bfloat16, each rounded up or down with a mean equal to it; equal seeds, equal draws."""
    generator = torch.Generator(values.device).manual_seed(seed)
    noise = torch.randint(
        1 << _ROUNDED_BITS, values.shape, dtype=torch.int32, device=values.device, generator=generator
    )
    bits = noise.add_(values.view(torch.int32)).bitwise_and_(-(1 << _ROUNDED_BITS))
    return bits.view(torch.float32).to(torch.bfloat16)


def _adamw(parameters: Sequence[nn.Parameter], settings: OptimiserSettings) -> torch.optim.Optimizer:
    arguments: dict[str, Any] = {
        "lr": settings.learning_rate,
        "betas": (settings.beta1, settings.beta2),
        "weight_decay": settings.weight_decay,
    }
    if settings.moments == "float32":
        return torch.optim.AdamW(parameters, **arguments, fused=True)
    try:
        import bitsandbytes
    except ImportError as exc:
        raise TrainingError(
            f"optimiser.moments = {settings.moments!r} needs bitsandbytes, which is not installed: "
            f"{INSTALL_QUANTISED}"
        ) from exc
    eight_bit: torch.optim.Optimizer = bitsandbytes.optim.AdamW8bit(parameters, **arguments)
    return eight_bit


@contextmanager
def _filled(target: nn.Parameter, like: Tensor) -> Iterator[None]:
    """Gives an empty copy the shape of ``like`` within the context."""
    is_empty = not target.numel()
    if is_empty:
        target.data = torch.empty(like.shape, dtype=torch.float32, device=target.device)
    try:
        yield
    finally:
        if is_empty:
            target.data = _EMPTY.to(target.device)


def _refuse_sharded(settings: OptimiserSettings) -> None:
    for name, value, usual in (
        ("precision", settings.precision, ("float32", "bfloat16")),
        ("moments", settings.moments, ("float32",)),
        ("offload", settings.offload, (False,)),
    ):
        if value not in usual:
            raise TrainingError(
                f"optimiser.{name} = {value!r} is for one process; several processes share weights and moments "
                f"already: set it to {' or '.join(map(repr, usual))}, or start one process"
            )

"""The reference implementation of the update: each rollout alone, all logits at all positions.

It also computes the model's log-probs, from which the sampler's recorded ones are derived.
"""

import numpy as np
import torch
from torch import Tensor, nn

from benchmarks.implementations.update_task import CLIP_HIGH, CLIP_LOW, parse_update_task, save_gradient
from benchmarks.worker_process import Channel, Settings, serve_steps
from benchmarks.workloads import Rollout, Workload, build_model, make_workload


def serve_dense(channel: Channel, settings: Settings) -> None:
    """Writes the model's log-probs and the gradient, and sends the loss. Further steps repeat the computation."""
    task = parse_update_task(settings)
    torch.set_num_threads(task.threads)
    model = build_model(task.model, task.device)
    workload = make_workload(task.workload)
    logprobs = [_logprobs(model, rollout).detach() for rollout in workload.rollouts]
    np.save(task.model_logprobs, torch.cat(logprobs).cpu().numpy())

    def step() -> dict[str, float]:
        model.zero_grad()
        return {"loss": _backward(model, workload, logprobs)}

    prepared = step()
    if task.gradient is not None:
        save_gradient(model, task.gradient)
    serve_steps(channel, prepared, step)


def _backward(model: nn.Module, workload: Workload, logprobs: list[Tensor]) -> float:
    """The loss, summed over the tokens of all rollouts and divided by their number; accumulates its gradient."""
    total = 0.0
    for rollout, advantage, model_A in zip(workload.rollouts, workload.advantages, logprobs, strict=True):
        old_A = model_A - torch.from_numpy(rollout.log_ratios).to(model_A.device)
        ratios_A = (_logprobs(model, rollout) - old_A).exp()
        clipped_A = ratios_A.clamp(1 - CLIP_LOW, 1 + CLIP_HIGH)
        loss = -torch.minimum(ratios_A * advantage, clipped_A * advantage).sum() / workload.written_tokens
        loss.backward()
        total += float(loss.detach())
    return total


def _logprobs(model: nn.Module, rollout: Rollout) -> Tensor:
    device = next(model.parameters()).device
    ids_L = torch.from_numpy(rollout.token_ids).to(device)
    logits_LV = model(input_ids=ids_L[None], use_cache=False).logits[0]
    positions_A = torch.from_numpy(rollout.positions).to(device)
    logprobs_LV = logits_LV.float().log_softmax(-1)
    written_A: Tensor = logprobs_LV[positions_A - 1, ids_L[positions_A]]
    return written_A

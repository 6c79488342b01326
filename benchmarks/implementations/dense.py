"""The side that defines what is right: each rollout by itself, all logits at all places, nothing clever.

It also finds the model's own log-probs, from which the recorded ones of the sampler are made.
"""

import numpy as np
import torch
from torch import Tensor, nn

from benchmarks.implementations.update_task import CLIP_HIGH, CLIP_LOW, read_task, save_gradient
from benchmarks.worker_process import Channel, Settings, serve_steps
from benchmarks.workloads import Attempt, Workload, build_model


def dense_side(channel: Channel, settings: Settings) -> None:
    """Writes own log-probs and gradient; answers with the loss. Its steps do the same again."""
    task = read_task(settings)
    torch.set_num_threads(task.threads)
    model = build_model(task.subject, task.device)
    workload = task.load_workload()
    own = [_logprobs(model, attempt).detach() for attempt in workload.attempts]
    np.save(task.own_logprobs, torch.cat(own).cpu().numpy())

    def step() -> dict[str, float]:
        model.zero_grad()
        loss = sum(float(each) for each in _losses(model, workload, own))
        return {"loss": loss}

    found = step()
    if task.gradient is not None:
        save_gradient(model, task.gradient)
    serve_steps(channel, found, step)


def _losses(model: nn.Module, workload: Workload, own: list[Tensor]) -> list[Tensor]:
    """Of each attempt, summed over its tokens and divided by the tokens of all; each is differentiated at once."""
    losses = []
    for attempt, advantage, own_A in zip(workload.attempts, workload.advantages, own, strict=True):
        old_A = own_A - torch.from_numpy(attempt.log_ratios).to(own_A.device)
        ratios_A = (_logprobs(model, attempt) - old_A).exp()
        clipped_A = ratios_A.clamp(1 - CLIP_LOW, 1 + CLIP_HIGH)
        loss = -torch.minimum(ratios_A * advantage, clipped_A * advantage).sum() / workload.written_tokens
        loss.backward()
        losses.append(loss.detach())
    return losses


def _logprobs(model: nn.Module, attempt: Attempt) -> Tensor:
    device = next(model.parameters()).device
    ids_L = torch.from_numpy(attempt.token_ids).to(device)
    logits_LV = model(input_ids=ids_L[None], use_cache=False).logits[0]
    positions_A = torch.from_numpy(attempt.positions).to(device)
    all_LV = logits_LV.float().log_softmax(-1)
    found_A: Tensor = all_LV[positions_A - 1, ids_L[positions_A]]
    return found_A

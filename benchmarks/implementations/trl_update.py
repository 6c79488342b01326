"""TRL's implementation of the update: its GRPOTrainer with recorded rollouts instead of its own. Needs TRL.

A step is timed from ``on_step_begin`` to ``on_step_end`` without ``_prepare_inputs``, which collects, scores and
pads the rollouts. With one optimiser step per batch TRL takes the log-probs that it has just computed for those of
the sampler. To have ratios other than 1, and a clip that binds, the recorded log-probs are added to its batch under
the key that it uses for several steps.
"""

import tempfile
from typing import Any

import torch
from datasets import Dataset
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from transformers import PreTrainedTokenizerFast, TrainerCallback
from trl import GRPOConfig, GRPOTrainer

from benchmarks.implementations.update_task import (
    CLIP_HIGH,
    CLIP_LOW,
    LEARNING_RATE,
    MAX_GRAD_NORM,
    UpdateTask,
    parse_update_task,
    save_gradient,
)
from benchmarks.machine import now
from benchmarks.worker_process import Channel, Settings
from benchmarks.workloads import Workload, build_model, make_workload
from upturn.training import FloatArray

_MAX_STEPS = 1_000_000
"""Never reached: the callback stops the trainer."""


def serve_update(channel: Channel, settings: Settings) -> None:
    """Sends the first step, whose gradient it writes, and then times further ones.

    Of the settings, ``micro_batch`` is the number of rows computed at once; ``gradient_checkpointing`` and
    ``precision`` are as in ``OptimiserSettings``.
    """
    task = parse_update_task(settings)
    torch.set_num_threads(task.threads)
    workload = make_workload(task.workload)
    with tempfile.TemporaryDirectory() as folder:
        clock = _StepClock(task.device)
        trainer = _RecordedTrainer(
            clock=clock,
            old_logprobs=_old_logprobs(workload, task.load_model_logprobs()),
            model=build_model(task.model, task.device),
            reward_funcs=_recorded_reward,
            args=_config(folder, workload, device=task.device, settings=settings),
            train_dataset=Dataset.from_dict({"prompt": ["recorded"]}),
            processing_class=_tokenizer(workload.settings.vocabulary),
            rollout_func=lambda prompts, _: _rollouts(workload, len(prompts)),
        )
        trainer.add_callback(_StepsOnRequest(channel, task, trainer, clock))
        trainer.train()


def _config(folder: str, workload: Workload, *, device: str, settings: Settings) -> GRPOConfig:
    """One group per step; what is not named here is TRL's default. Weights stay in float32."""
    checkpointing, micro_batch = settings["gradient_checkpointing"], settings["micro_batch"]
    assert isinstance(checkpointing, bool) and isinstance(micro_batch, int)
    group_size = len(workload.rollouts)
    return GRPOConfig(
        output_dir=folder,
        use_cpu=device == "cpu",
        bf16=settings["precision"] == "bfloat16",
        gradient_checkpointing=checkpointing,
        per_device_train_batch_size=micro_batch,
        gradient_accumulation_steps=group_size // micro_batch,
        num_generations=group_size,
        num_iterations=1,
        max_completion_length=max(len(rollout.token_ids) for rollout in workload.rollouts),
        beta=0.0,
        loss_type="dapo",
        scale_rewards="none",
        epsilon=CLIP_LOW,
        epsilon_high=CLIP_HIGH,
        learning_rate=LEARNING_RATE,
        lr_scheduler_type="constant",
        max_grad_norm=MAX_GRAD_NORM,
        max_steps=_MAX_STEPS,
        logging_strategy="no",
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
    )


class _StepClock:
    """Seconds and loss of the current step, without the time spent on preparing its inputs."""

    def __init__(self, device: str) -> None:
        self.device = device
        self.loss = 0.0
        self._started = 0.0
        self._excluded = 0.0

    def start(self) -> None:
        self._excluded = self.loss = 0.0
        self._started = now(self.device)

    def exclude(self, seconds: float) -> None:
        self._excluded += seconds

    def stop(self) -> float:
        return now(self.device) - self._started - self._excluded


class _RecordedTrainer(GRPOTrainer):
    """TRL's trainer with a clock, and with the sampler's recorded log-probs in its batch."""

    def __init__(self, *, clock: _StepClock, old_logprobs: list[torch.Tensor], **arguments: Any) -> None:
        self._clock = clock
        self._old_logprobs = old_logprobs
        super().__init__(**arguments)

    def _prepare_inputs(self, generation_batch: Any) -> Any:
        started = now(self._clock.device)
        inputs = super()._prepare_inputs(generation_batch)
        self._clock.exclude(now(self._clock.device) - started)
        return inputs

    def _generate_and_score_completions(self, inputs: Any) -> Any:
        batch = super()._generate_and_score_completions(inputs)
        completions = batch["completion_ids"]
        padded = torch.zeros(completions.shape, device=completions.device)
        for row, logprobs in enumerate(self._old_logprobs):
            padded[row, : len(logprobs)] = logprobs
        batch["old_per_token_logps"] = padded
        return batch

    def compute_loss(self, *arguments: Any, **named: Any) -> torch.Tensor:
        loss: torch.Tensor = super().compute_loss(*arguments, **named)
        self._clock.loss += float(loss.detach())
        return loss


class _StepsOnRequest(TrainerCallback):
    """Runs one step of the trainer per request."""

    def __init__(self, channel: Channel, task: UpdateTask, trainer: GRPOTrainer, clock: _StepClock) -> None:
        self._channel = channel
        self._task = task
        self._trainer = trainer
        self._clock = clock

    def on_train_begin(self, *_: Any, **__: Any) -> None:
        self._channel.mark_baseline(self._task.device)

    def on_step_begin(self, *_: Any, **__: Any) -> None:
        self._clock.start()

    def on_pre_optimizer_step(self, *events: Any, **_: Any) -> None:
        _, state, _ = events
        if state.global_step == 0 and self._task.gradient is not None:
            save_gradient(self._trainer.model, self._task.gradient)

    def on_step_end(self, *events: Any, **_: Any) -> None:
        _, _, control = events
        self._channel.send({"seconds": self._clock.stop(), "loss": self._clock.loss})
        control.should_training_stop = not self._channel.wait_for_step()


def _rollouts(workload: Workload, count: int) -> dict[str, Any]:
    """The result of a TRL rollout function for the one prompt, which TRL repeats ``count`` times."""
    assert count == len(workload.rollouts)
    start = workload.settings.prompt_tokens
    masks = []
    for rollout in workload.rollouts:
        written = set(rollout.positions.tolist())
        masks.append([int(position in written) for position in range(start, len(rollout.token_ids))])
    return {
        "prompt_ids": [rollout.token_ids[:start].tolist() for rollout in workload.rollouts],
        "completion_ids": [rollout.token_ids[start:].tolist() for rollout in workload.rollouts],
        "logprobs": None,
        "env_mask": masks,
        "recorded": [rollout.reward for rollout in workload.rollouts],
    }


def _recorded_reward(recorded: list[float], **_: Any) -> list[float]:
    return recorded


def _old_logprobs(workload: Workload, model_logprobs: FloatArray) -> list[torch.Tensor]:
    """The sampler's log-prob of each completion token; 0 where the agent wrote nothing."""
    rows, start, prompt = [], 0, workload.settings.prompt_tokens
    for rollout in workload.rollouts:
        count = len(rollout.positions)
        row = torch.zeros(len(rollout.token_ids) - prompt)
        logprobs = model_logprobs[start : start + count] - rollout.log_ratios
        row[torch.from_numpy(rollout.positions - prompt)] = torch.from_numpy(logprobs)
        rows.append(row)
        start += count
    return rows


def _tokenizer(vocabulary: int) -> PreTrainedTokenizerFast:
    """One word per token; TRL decodes what it trains on."""
    words = {f"t{token}": token for token in range(vocabulary)}
    return PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer(WordLevel(words, unk_token="t1")),
        pad_token="t0",
        eos_token="t0",
        unk_token="t1",
        padding_side="left",
    )

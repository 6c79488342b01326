"""TRL's side: its GRPOTrainer, driven by recorded rollouts instead of its own sampling. Needs TRL.

Timed is what lies between ``on_step_begin`` and ``on_step_end``, without ``_prepare_inputs``: that is where it
takes the rollouts, scores them and pads them. With one optimiser step per batch TRL takes the log-probs that it has
just computed for those of the sampler; to have ratios that differ from 1, and a clip that binds, the recorded ones
are added to its batch under the key that it uses when it makes several steps.
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
    NO_LIMIT,
    UpdateTask,
    read_task,
    save_gradient,
)
from benchmarks.machine import now
from benchmarks.worker_process import Channel, Settings
from benchmarks.workloads import Workload, build_model
from upturn.training import FloatArray

_STEPS = 1_000_000
"""More than anyone asks for: the trainer stops when nobody does."""


def trl_side(channel: Channel, settings: Settings) -> None:
    """Answers the first step, whose gradient it writes, and then times further ones.

    Among the settings: ``gradient_checkpointing``, ``micro_batch``, rows that it computes at once, and
    ``precision``, as our own optimiser's settings have it.
    """
    task = read_task(settings)
    torch.set_num_threads(task.threads)
    model = build_model(task.subject)
    workload = task.load_workload()
    with tempfile.TemporaryDirectory() as folder:
        config = _config(folder, workload, device=task.device, settings=settings)
        clock = _Clock(task.device)
        trainer = _RecordedTrainer(
            clock=clock,
            old_logprobs=_old_logprobs(workload, task.load_own_logprobs()),
            model=model,
            reward_funcs=_recorded_reward,
            args=config,
            train_dataset=Dataset.from_dict({"prompt": ["recorded"]}),
            processing_class=_tokenizer(workload.settings.vocabulary),
            rollout_func=lambda prompts, _: _rollouts(workload, len(prompts)),
        )
        trainer.add_callback(_Conversation(channel, task, trainer, clock))
        trainer.train()


def _config(folder: str, workload: Workload, *, device: str, settings: Settings) -> GRPOConfig:
    """One group a step; everything that is not named here is TRL's default. Weights stay in float32."""
    checkpointing, micro_batch = settings["gradient_checkpointing"], settings["micro_batch"]
    assert isinstance(checkpointing, bool) and isinstance(micro_batch, int)
    attempts = len(workload.attempts)
    longest = max(len(attempt.token_ids) for attempt in workload.attempts)
    return GRPOConfig(
        output_dir=folder,
        use_cpu=device == "cpu",
        bf16=settings["precision"] == "bfloat16",
        gradient_checkpointing=checkpointing,
        per_device_train_batch_size=micro_batch,
        gradient_accumulation_steps=attempts // micro_batch,
        num_generations=attempts,
        num_iterations=1,
        max_completion_length=longest,
        beta=0.0,
        loss_type="dapo",
        scale_rewards="none",
        epsilon=CLIP_LOW,
        epsilon_high=CLIP_HIGH,
        learning_rate=LEARNING_RATE,
        lr_scheduler_type="constant",
        max_grad_norm=NO_LIMIT,
        max_steps=_STEPS,
        logging_strategy="no",
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
    )


class _Clock:
    """Seconds of the step that runs, without those spent on preparing its inputs."""

    def __init__(self, device: str) -> None:
        self.device = device
        self._started = 0.0
        self._apart = 0.0
        self.loss = 0.0

    def begin(self) -> None:
        self._apart = self.loss = 0.0
        self._started = now(self.device)

    def set_apart(self, seconds: float) -> None:
        self._apart += seconds

    def end(self) -> float:
        return now(self.device) - self._started - self._apart


class _RecordedTrainer(GRPOTrainer):
    """TRL's trainer with a clock, and with the sampler's recorded log-probs in its batch."""

    def __init__(self, *, clock: _Clock, old_logprobs: list[torch.Tensor], **arguments: Any) -> None:
        self._clock = clock
        self._old_logprobs = old_logprobs
        super().__init__(**arguments)

    def _prepare_inputs(self, generation_batch: Any) -> Any:
        started = now(self._clock.device)
        found = super()._prepare_inputs(generation_batch)
        self._clock.set_apart(now(self._clock.device) - started)
        return found

    def _generate_and_score_completions(self, inputs: Any) -> Any:
        found = super()._generate_and_score_completions(inputs)
        completions = found["completion_ids"]
        padded = torch.zeros(completions.shape, device=completions.device)
        for row, known in enumerate(self._old_logprobs):
            padded[row, : len(known)] = known
        found["old_per_token_logps"] = padded
        return found

    def compute_loss(self, *arguments: Any, **named: Any) -> torch.Tensor:
        loss: torch.Tensor = super().compute_loss(*arguments, **named)
        self._clock.loss += float(loss.detach())
        return loss


class _Conversation(TrainerCallback):
    """Lets the trainer make one step for each that is asked for."""

    def __init__(self, channel: Channel, task: UpdateTask, trainer: GRPOTrainer, clock: _Clock) -> None:
        self._channel = channel
        self._task = task
        self._trainer = trainer
        self._clock = clock

    def on_train_begin(self, *_: Any, **__: Any) -> None:
        self._channel.mark_baseline(self._task.device)

    def on_step_begin(self, *_: Any, **__: Any) -> None:
        self._clock.begin()

    def on_pre_optimizer_step(self, *events: Any, **_: Any) -> None:
        _, state, _ = events
        if state.global_step == 0 and self._task.gradient is not None:
            save_gradient(self._trainer.model, self._task.gradient)

    def on_step_end(self, *events: Any, **_: Any) -> None:
        _, _, control = events
        self._channel.answer({"seconds": self._clock.end(), "loss": self._clock.loss})
        control.should_training_stop = not self._channel.is_asked()


def _rollouts(workload: Workload, count: int) -> dict[str, Any]:
    """What TRL asks of a rollout function, for the one prompt that it repeats ``count`` times."""
    assert count == len(workload.attempts)
    start = workload.settings.prompt_tokens
    found: dict[str, Any] = {
        "prompt_ids": [],
        "completion_ids": [],
        "logprobs": None,
        "env_mask": [],
        "recorded": [],
    }
    for attempt in workload.attempts:
        written = set(attempt.positions.tolist())
        found["prompt_ids"].append(attempt.token_ids[:start].tolist())
        found["completion_ids"].append(attempt.token_ids[start:].tolist())
        found["env_mask"].append([int(place in written) for place in range(start, len(attempt.token_ids))])
        found["recorded"].append(attempt.reward)
    return found


def _recorded_reward(recorded: list[float], **_: Any) -> list[float]:
    return recorded


def _old_logprobs(workload: Workload, own_logprobs: FloatArray) -> list[torch.Tensor]:
    """Of each completion token; 0 where the agent wrote nothing."""
    found, start = [], 0
    for attempt in workload.attempts:
        count, prompt = len(attempt.positions), workload.settings.prompt_tokens
        old = torch.zeros(len(attempt.token_ids) - prompt)
        own = own_logprobs[start : start + count] - attempt.log_ratios
        old[torch.from_numpy(attempt.positions - prompt)] = torch.from_numpy(own)
        found.append(old)
        start += count
    return found


def _tokenizer(vocabulary: int) -> PreTrainedTokenizerFast:
    """One word a token; TRL decodes what it trains on."""
    words = {f"t{token}": token for token in range(vocabulary)}
    return PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer(WordLevel(words, unk_token="t1")),
        pad_token="t0",
        eos_token="t0",
        unk_token="t1",
        padding_side="left",
    )

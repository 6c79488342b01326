"""TRL's side of an iteration: its GRPOTrainer with ``environment_factory`` in errands as well. Needs TRL.

The shipped model speaks its own grammar, so it gets a chat template and a parser that speak it: tokens come out as
``CompactRenderer`` makes them. Errands is one tool, ``act(call)``. What ends a task (``user.finish`` and the
like) is the last message and no tool call, as TRL wants it; the reward function hands it to the office.
"""

import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from tokenizers import Tokenizer
from transformers import PreTrainedTokenizerFast, TrainerCallback
from trl import GRPOConfig, GRPOTrainer

from benchmarks.errands import MODEL, ErrandsEnvironment, ErrandsVerifier
from benchmarks.implementations.iteration_task import LEARNING_RATE, LIMITS, PracticeTask, read_practice
from benchmarks.worker_process import Channel, Settings
from upturn.models import CompactRenderer, load_local, read_call
from upturn.records import Action, Observation, Task, Trajectory, Turn, fields_json, from_fields

FINAL = ("answer", "refuse", "finish")
"""Operations of ``user`` that end a task."""
TEMPLATE = (
    "{%- for message in messages -%}"
    "{%- if message.role == 'user' -%}<|task|>{{ message.content }}"
    "{%- elif message.role == 'tool' -%}<|obs|>{{ message.content }}"
    "{%- else -%}<|act|>{{ message.content }}"
    "{%- for call in message.tool_calls or [] -%}{{ call.function.name }}"
    "{%- for key, value in call.function.arguments.items() %} {{ key }}={{ value }}{% endfor -%}"
    "{%- endfor -%}<|end|>"
    "{%- endif -%}"
    "{%- endfor -%}"
    "{%- if add_generation_prompt -%}<|act|>{%- endif -%}"
)


def practice_side(channel: Channel, settings: Settings) -> None:
    """Answers each iteration. Among the settings: ``gradient_checkpointing`` and ``micro_batch``."""
    task = read_practice(settings)
    torch.set_num_threads(task.threads)
    rows = [each for iteration in range(task.iterations) for each in task.tasks_of(iteration)]
    with tempfile.TemporaryDirectory() as folder:
        trainer = GRPOTrainer(
            model=load_local(MODEL).model,
            reward_funcs=errands_reward,
            args=_config(folder, task, settings),
            train_dataset=Dataset.from_dict(
                {
                    "prompt": [[{"role": "user", "content": ""}]] * len(rows),
                    "task": [fields_json(row) for row in rows],
                }
            ),
            processing_class=errands_tokenizer(),
            environment_factory=ErrandsTools,
        )
        trainer.add_callback(_Conversation(channel, trainer))
        trainer.train()


def _config(folder: str, task: PracticeTask, settings: Settings) -> GRPOConfig:
    micro_batch, checkpointing = settings["micro_batch"], settings["gradient_checkpointing"]
    assert isinstance(micro_batch, int) and isinstance(checkpointing, bool)
    assert LIMITS.max_tokens is not None
    return GRPOConfig(
        output_dir=folder,
        use_cpu=True,
        bf16=False,
        gradient_checkpointing=checkpointing,
        per_device_train_batch_size=micro_batch,
        gradient_accumulation_steps=task.tasks * task.attempts // micro_batch,
        num_generations=task.attempts,
        num_iterations=1,
        shuffle_dataset=False,
        temperature=1.0,
        max_completion_length=LIMITS.max_tokens,
        generation_kwargs={"max_new_tokens": LIMITS.max_action_tokens},
        max_tool_calling_iterations=LIMITS.max_turns - 1,
        beta=0.0,
        loss_type="dapo",
        scale_rewards="none",
        epsilon=0.2,
        epsilon_high=0.28,
        learning_rate=LEARNING_RATE,
        lr_scheduler_type="constant",
        max_steps=task.iterations,
        logging_strategy="no",
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
    )


class ErrandsTools:
    """An office as TRL wants it: reset, and a method for each tool."""

    def __init__(self) -> None:
        self._environment = ErrandsEnvironment()
        self._verifier = ErrandsVerifier()
        self._task: Task | None = None
        self._turns: list[Turn] = []
        self._observation = Observation("")
        self._is_finished = False

    def reset(self, task: str, **_: Any) -> str:
        """The instruction; the world is rebuilt from the task."""
        self._task = from_fields(Task, task)
        self._observation = self._environment.reset(self._task)[0]
        self._turns, self._is_finished = [], False
        return self._observation.text

    def act(self, call: str) -> str:
        """Does something in the office.

        Args:
            call: target.operation name=value; name=value

        Returns:
            What happened.
        """
        action = read_call(call)
        step = self._environment.step(action or Action("", ""))
        self._turns.append(Turn(self._observation, call, action, costs=dict(step.info.cost_components)))
        self._observation, self._is_finished = step.observation, step.is_terminated
        return f"error {step.observation.code}" if step.observation.is_error else step.observation.text

    def _score(self) -> float:
        """The verifier's score of what was done."""
        assert self._task is not None
        attempt = Trajectory(
            id="bench",
            task_id=self._task.id,
            agent_version="nano@base",
            turns=tuple(self._turns),
            final_observation=self._observation,
            outcome="finished" if self._is_finished else "step_limit",
            origin="sampled",
            final_state=self._environment.state(),
        )
        score = self._verifier.verify(self._task, attempt).score
        assert score is not None
        return score


def errands_reward(completions: Sequence[Any], environments: Sequence[ErrandsTools], **_: Any) -> list[float]:
    """Does what the last message says, if it is no tool call, and judges the attempt."""
    scores = []
    for completion, errands in zip(completions, environments, strict=True):
        if not completion[-1].get("tool_calls") and completion[-1]["role"] == "assistant":
            errands.act(completion[-1]["content"])
        scores.append(errands._score())  # a public method would be a tool
    return scores


class _ErrandsTokenizer(PreTrainedTokenizerFast):
    """Reads what the shipped model writes."""

    renderer: CompactRenderer

    def parse_response(self, response: Any, *_: Any, **__: Any) -> dict[str, Any]:
        """One tool call with the text that was written, or the text alone when it ends the task."""
        text, action = self.renderer.read(response)
        if action is not None and action.target == "user" and action.operation in FINAL:
            return {"role": "assistant", "content": text}
        call = {"name": "act", "arguments": {"call": text if action is not None else ""}}
        return {"role": "assistant", "content": "", "tool_calls": [{"type": "function", "function": call}]}


def errands_tokenizer() -> PreTrainedTokenizerFast:
    """The shipped model's, with template and parser."""
    file = str(Path(MODEL) / "tokenizer.json")
    make: Any = _ErrandsTokenizer  # its constructor takes anything
    tokenizer: _ErrandsTokenizer = make(
        tokenizer_file=file,
        eos_token="<|end|>",
        pad_token="<|end|>",
        padding_side="left",
        chat_template=TEMPLATE,
        response_template={},
    )
    tokenizer.renderer = CompactRenderer(Tokenizer.from_file(file))
    return tokenizer


class _Conversation(TrainerCallback):
    """Lets the trainer make one iteration for each that is asked for."""

    def __init__(self, channel: Channel, trainer: GRPOTrainer) -> None:
        self._channel = channel
        self._trainer = trainer
        self._started = 0.0

    def on_train_begin(self, *_: Any, **__: Any) -> None:
        self._channel.mark_baseline()

    def on_step_begin(self, *_: Any, **__: Any) -> None:
        self._started = time.perf_counter()

    def on_step_end(self, *events: Any, **_: Any) -> None:
        _, _, control = events
        seconds = time.perf_counter() - self._started
        metrics = self._trainer._metrics["train"]
        count = self._trainer.args.generation_batch_size
        self._channel.answer(
            {
                "seconds": seconds,
                "reward": metrics["reward"][-1],
                "written_tokens": metrics["completions/mean_length"][-1] * count,
            }
        )
        control.should_training_stop = not self._channel.is_asked()

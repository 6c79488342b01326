"""TRL's implementation of an iteration: its GRPOTrainer with ``environment_factory`` in errands. Needs TRL.

The shipped model has its own grammar, so TRL gets a chat template and a parser for it that give the tokens of
``CompactRenderer``. Errands is one tool, ``act(call)``. A call that ends a task (``user.finish`` and the like) is
the last message and no tool call, as TRL requires; the reward function passes it to the environment.
"""

import tempfile
import time
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from tokenizers import Tokenizer
from transformers import PreTrainedTokenizerFast, TrainerCallback
from trl import GRPOConfig, GRPOTrainer

from benchmarks.errands import MODEL, ErrandsEnvironment, ErrandsVerifier
from benchmarks.implementations.iteration_task import LEARNING_RATE, LIMITS, IterationTask, parse_iteration_task
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


def serve_iterations(channel: Channel, settings: Settings) -> None:
    """Sends each iteration. ``gradient_checkpointing`` and ``micro_batch`` are among the settings."""
    task = parse_iteration_task(settings)
    torch.set_num_threads(task.threads)
    tasks = list(chain.from_iterable(map(task.tasks_of, range(task.iterations))))
    with tempfile.TemporaryDirectory() as folder:
        trainer = GRPOTrainer(
            model=load_local(MODEL).model,
            reward_funcs=errands_reward,
            args=_config(folder, task, settings),
            train_dataset=Dataset.from_dict(
                {"prompt": [[{"role": "user", "content": ""}]] * len(tasks), "task": list(map(fields_json, tasks))}
            ),
            processing_class=errands_tokenizer(),
            environment_factory=ErrandsTools,
        )
        trainer.add_callback(_IterationsOnRequest(channel, trainer))
        trainer.train()


def _config(folder: str, task: IterationTask, settings: Settings) -> GRPOConfig:
    micro_batch, checkpointing = settings["micro_batch"], settings["gradient_checkpointing"]
    assert isinstance(micro_batch, int) and isinstance(checkpointing, bool)
    assert LIMITS.max_tokens is not None
    return GRPOConfig(
        output_dir=folder,
        use_cpu=True,
        bf16=False,
        gradient_checkpointing=checkpointing,
        per_device_train_batch_size=micro_batch,
        gradient_accumulation_steps=task.tasks * task.group_size // micro_batch,
        num_generations=task.group_size,
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
    """The environment as TRL requires it: ``reset``, and a method for each tool."""

    def __init__(self) -> None:
        self._environment = ErrandsEnvironment()
        self._verifier = ErrandsVerifier()
        self._task: Task | None = None
        self._turns: list[Turn] = []
        self._observation = Observation("")
        self._is_finished = False

    def reset(self, task: str, **_: Any) -> str:
        """Rebuilds the world from the task and returns the instruction."""
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
        """The verifier's score of the rollout."""
        assert self._task is not None
        trajectory = Trajectory(
            id="bench",
            task_id=self._task.id,
            agent_version="nano@base",
            turns=tuple(self._turns),
            final_observation=self._observation,
            outcome="finished" if self._is_finished else "step_limit",
            origin="sampled",
            final_state=self._environment.state(),
        )
        score = self._verifier.verify(self._task, trajectory).score
        assert score is not None
        return score


def errands_reward(completions: Sequence[Any], environments: Sequence[ErrandsTools], **_: Any) -> list[float]:
    """Scores of the rollouts, after the last message is applied where it is no tool call."""
    scores = []
    for completion, environment in zip(completions, environments, strict=True):
        if not completion[-1].get("tool_calls") and completion[-1]["role"] == "assistant":
            environment.act(completion[-1]["content"])
        scores.append(environment._score())  # a public method would be a tool
    return scores


class _ErrandsTokenizer(PreTrainedTokenizerFast):
    """Tokenizer with a parser of the shipped model's grammar."""

    renderer: CompactRenderer

    def parse_response(self, response: Any, *_: Any, **__: Any) -> dict[str, Any]:
        """A tool call with the written text, or the text alone when it ends the task."""
        text, action = self.renderer.read(response)
        if action is not None and action.target == "user" and action.operation in FINAL:
            return {"role": "assistant", "content": text}
        call = {"name": "act", "arguments": {"call": text if action is not None else ""}}
        return {"role": "assistant", "content": "", "tool_calls": [{"type": "function", "function": call}]}


def errands_tokenizer() -> PreTrainedTokenizerFast:
    """The shipped model's tokenizer, with template and parser."""
    file = str(Path(MODEL) / "tokenizer.json")
    constructor: Any = _ErrandsTokenizer  # takes any arguments
    tokenizer: _ErrandsTokenizer = constructor(
        tokenizer_file=file,
        eos_token="<|end|>",
        pad_token="<|end|>",
        padding_side="left",
        chat_template=TEMPLATE,
        response_template={},
    )
    tokenizer.renderer = CompactRenderer(Tokenizer.from_file(file))
    return tokenizer


class _IterationsOnRequest(TrainerCallback):
    """Runs one iteration of the trainer per request."""

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
        self._channel.send(
            {
                "seconds": seconds,
                "reward": metrics["reward"][-1],
                "written_tokens": metrics["completions/mean_length"][-1] * count,
            }
        )
        control.should_training_stop = not self._channel.wait_for_step()

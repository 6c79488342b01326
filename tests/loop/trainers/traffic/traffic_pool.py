"""A pool of episodes in nano's tokens with feedback on them; not a test module."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import torch

from benchmarks.errands import MODEL
from upturn.config import Config
from upturn.loop.trainers import parse_full_config
from upturn.models import CompactRenderer, load_local
from upturn.pool import Pool
from upturn.records import (
    Action,
    AgentVersion,
    Call,
    Feedback,
    Observation,
    Task,
    TokenRow,
    Trajectory,
    Turn,
    WrittenSpan,
    episode_task_id,
)

NANO = {"name": "nano", "kind": "local_model", "model": MODEL}
VERSIONS = tuple(AgentVersion("nano", name, "local_model", model=MODEL) for name in ("base", "new"))


@cache
def renderer() -> CompactRenderer:
    """Of the model that is trained."""
    return CompactRenderer(load_local(MODEL).tokenizer)


def config(path: Path, traffic: Mapping[str, Any] | None = None, **sections: Mapping[str, Any]) -> Config:
    """A run on the pool's traffic, evaluated at the toy desk."""
    return parse_full_config(
        {
            "run": {"threads": 1},
            "agents": [NANO],
            "environment": {"name": "toy_desk:kit", "max_turns": 1, "max_tokens": 128},
            "tasks": {"heldout_count": 30},
            "pool": {"path": str(path)},
            "traffic": traffic or {},
            **sections,
        }
    )


def episode(
    name: str,
    prompt: str,
    answer: str,
    *,
    version: str = "nano@base",
    tenant: str = "default",
    logprob: float | None = -0.5,
    temperature: float | None = 1.0,
) -> tuple[Task, Trajectory]:
    """A sealed episode with one answer; ``logprob``: of each token, None = it has no tokens."""
    task = Task(episode_task_id(tenant, name), prompt, "general", "call", tenant=tenant, episode=name)
    opening, (*words, end) = (
        renderer().open(Observation(prompt)),
        renderer().rerender((Turn(Observation(prompt), answer, None),), observation=Observation(""))[
            len(renderer().open(Observation(prompt))) : -2
        ],
    )
    written = (*words, end)
    span = WrittenSpan(0, len(opening), len(opening) + len(written))
    row = TokenRow((*opening, *written), (span,), (() if logprob is None else (logprob,) * len(written)))
    turn = Turn(Observation(prompt), answer, Action("user", "answer", {}))
    return task, Trajectory(
        f"{task.id}/0",
        task.id,
        version,
        (turn,),
        Observation(""),
        "finished",
        "rendered" if logprob is None else "sampled",
        rows=() if logprob is None else (row,),
        temperature=None if logprob is None else temperature,
    )


def rating(
    name: str, value: float, *, metric: str = "thumbs", tenant: str = "default", number: int = 0
) -> Feedback:
    """Feedback on an episode."""
    return Feedback(f"{name}/{metric}/{number}", "episode", name, metric, value, tenant)


def store(path: Path, *records: Any) -> Path:
    """The pool with these records, the versions that answered, and a call of each tenant."""
    with Pool.open(path) as pool:
        pool.append(*VERSIONS, *records)
        for tenant in {record.tenant for record in records if isinstance(record, Task)}:
            pool.append(Call(f"call/{tenant}", tenant, "a", "default", "chat", "nano@base", "answered"))
    return path


def mean_logprob(model: str, prompt: str, answer: str) -> float:
    """Of the answer's tokens after the prompt, by a model's folder."""
    _, trajectory = episode("x", prompt, answer)
    (row,) = trajectory.rows
    ids = torch.tensor([row.token_ids])
    with torch.no_grad():
        logprobs = load_local(model).model(ids).logits[0].log_softmax(-1)
    start, stop = row.spans[0].start, row.spans[0].stop
    return float(sum(logprobs[index - 1, row.token_ids[index]] for index in range(start, stop)) / (stop - start))

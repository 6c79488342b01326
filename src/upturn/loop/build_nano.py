"""Building a model that ships with the package: pre-training, saving in bfloat16, held-out evaluation, card."""

import json
import shutil
from hashlib import sha256
from itertools import islice
from pathlib import Path

from typing_extensions import TypedDict

from upturn.config import Limits
from upturn.deployment import Interval
from upturn.environments import resolve_kit, verify
from upturn.loop.agent_runtime import AgentRuntime, Purpose
from upturn.loop.evaluation import evaluate_version, evaluation_tasks, families_of, levels_of
from upturn.loop.progress import Progress
from upturn.models import CARD
from upturn.records import AgentVersion, fields_json, record
from upturn.training.pretraining import Course, Phase, pretrain

HELDOUT_TASKS = 900
PASS_TASKS = 40
"""Training tasks of each family for pass@8."""
ATTEMPTS = 8


class Figure(TypedDict):
    """A share with its 95 % interval."""

    value: float
    low: float
    high: float
    n: int


@record
class Card:
    """What the model is, how it was made and what it can do."""

    name: str
    architecture: str
    parameters: int
    steps: int
    schedule: tuple[Phase, ...]
    seed: int
    threads: int
    data: str
    weights_sha256: str
    tokenizer_sha256: str
    heldout: dict[str, Figure]
    """Success on held-out office tasks: ``sampled`` at temperature 1 and ``greedy``, by level and family too."""
    pass_at_8: dict[str, float]
    """Share of training tasks of each family that at least one of eight samples solves."""
    tokens_per_trajectory: dict[str, float]
    """Mean tokens, prompt and observations included, by level."""


def limits_of(course: Course) -> Limits:
    """Of a trajectory in the held-out evaluations of the course."""
    return Limits(
        max_turns=course.max_turns, max_tokens=course.max_tokens, max_action_tokens=course.max_action_tokens
    )


def build(course: Course, work: Path, target: Path, *, seed: int, threads: int, progress: Progress) -> Card:
    """Builds the model into ``target``, resuming from ``work``; what was in ``target`` is replaced at the end."""
    from upturn.training.runs import save_version

    progress.stage("Pre-training", course.steps)
    done = 0

    def show(steps: int, loss: float) -> None:
        nonlocal done
        progress.advance(steps - done, loss=loss)
        done = steps

    model, tokenizer = pretrain(course, work / "training", seed=seed, threads=threads, progress=show)
    folder = work / "model"
    shutil.rmtree(folder, ignore_errors=True)
    save_version(model, folder, stored="bfloat16")
    tokenizer.save(str(folder / "tokenizer.json"))
    card = _evaluated(course, folder, model.num_parameters(), seed=seed, threads=threads, progress=progress)
    (folder / CARD).write_text(json.dumps(json.loads(fields_json(card)), indent=2) + "\n")
    put_files(folder, target)
    return card


def put_files(source: Path, target: Path) -> None:
    """Copies a folder's files into ``target``, each by renaming: processes that have the old one mapped keep it."""
    target.mkdir(parents=True, exist_ok=True)
    for file in sorted(source.iterdir()):
        partial = target / f".{file.name}.partial"
        shutil.copyfile(file, partial)
        partial.replace(target / file.name)


def _evaluated(
    course: Course, folder: Path, parameters: int, *, seed: int, threads: int, progress: Progress
) -> Card:
    """The card of the model as it was saved: rounded weights, loaded again."""
    kit = resolve_kit(course.environment)
    runtime = AgentRuntime(kit, limits_of(course))
    version = AgentVersion("nano", "base", "local_model", model=str(folder), parameters={"temperature": 1.0})
    heldout: dict[str, Figure] = {}
    tasks = evaluation_tasks(kit, course.families, HELDOUT_TASKS, seed=seed, split="heldout")
    for name, temperature in (("sampled", 1.0), ("greedy", 0.0)):
        progress.stage(f"Held-out evaluation, {name}", 1)
        result = evaluate_version(runtime, version, tasks, Purpose(f"card/{name}", seed, temperature), pool=None)
        heldout[name] = _figure(result.interval())
        for level in levels_of(result.marks):
            heldout[f"{name}_L{level}"] = _figure(result.interval(level=level))
        for family in families_of(result.marks):
            heldout[f"{name}_{family}"] = _figure(result.interval(family=family))
        progress.advance(1, success=result.rate())
    progress.stage("pass@8", len(course.families))
    passed: dict[str, float] = {}
    lengths: dict[int, list[int]] = {}
    for family in course.families:
        practice = list(islice(kit.tasks(seed=seed + 1, split="train", families=[family]), PASS_TASKS))
        jobs = [(version, task, number) for task in practice for number in range(ATTEMPTS)]
        trajectories = runtime.attempt(jobs, Purpose(f"card/pass/{family}", seed, 1.0))
        solved = {
            task.id
            for (_, task, _), each in zip(jobs, trajectories, strict=True)
            if verify(kit.verifier, task, each).is_success
        }
        passed[family] = len(solved) / len(practice)
        rows = [row for each in trajectories for row in each.rows]
        lengths.setdefault(kit.families[family], []).extend(len(row.token_ids) for row in rows)
        progress.advance(1, pass_at_8=passed[family])
    return Card(
        name=course.model,
        architecture=f"Qwen2, 4 layers, width 128, vocabulary {course.vocabulary:,}",
        parameters=parameters,
        steps=course.steps,
        schedule=tuple(course.schedule),
        seed=seed,
        threads=threads,
        data=course.data,
        weights_sha256=sha256((folder / "model.safetensors").read_bytes()).hexdigest(),
        tokenizer_sha256=sha256((folder / "tokenizer.json").read_bytes()).hexdigest(),
        heldout=heldout,
        pass_at_8=passed,
        tokens_per_trajectory={f"L{level}": sum(found) / len(found) for level, found in sorted(lengths.items())},
    )


def _figure(found: Interval) -> Figure:
    return {"value": found.mean, "low": found.low, "high": found.high, "n": found.n}

"""Building a model that ships with the package: pre-training, saving in bfloat16, held-out evaluation, card."""

import json
import shutil
from hashlib import sha256
from itertools import islice
from pathlib import Path

from typing_extensions import TypedDict

from upturn.config import Limits
from upturn.environments import resolve_kit, verify
from upturn.interval import Interval
from upturn.loop.agent_runtime import AgentRuntime, Purpose
from upturn.loop.evaluation import evaluate_version, evaluation_tasks, families_of, levels_of
from upturn.loop.progress import Progress
from upturn.models import CARD
from upturn.records import AgentVersion, fields_json, record
from upturn.training.pretraining import Phase, Recipe, pretrain

HELDOUT_TASKS = 900
PASS_TASKS = 40
"""Training tasks of each family for pass@8."""
SAMPLES = 8
"""Trajectories per task for pass@8."""


class Figure(TypedDict):
    """A share with its 95 % interval."""

    value: float
    low: float
    high: float
    n: int


@record
class Card:
    """The model card: architecture, training and success rates."""

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


def limits_of(recipe: Recipe) -> Limits:
    """Limits of a trajectory in the recipe's held-out evaluations."""
    return Limits(
        max_turns=recipe.max_turns, max_tokens=recipe.max_tokens, max_action_tokens=recipe.max_action_tokens
    )


def build_model(recipe: Recipe, work: Path, target: Path, *, seed: int, threads: int, progress: Progress) -> Card:
    """Builds the model in ``work``, resuming from its checkpoints, and finally replaces the files in ``target``."""
    from upturn.training.runs import save_version

    progress.stage("Pre-training", recipe.steps)
    done = 0

    def show(steps: int, loss: float) -> None:
        nonlocal done
        progress.advance(steps - done, loss=loss)
        done = steps

    model, tokenizer = pretrain(recipe, work / "training", seed=seed, threads=threads, progress=show)
    folder = work / "model"
    shutil.rmtree(folder, ignore_errors=True)
    save_version(model, folder, stored="bfloat16")
    tokenizer.save(str(folder / "tokenizer.json"))
    card = _evaluate(recipe, folder, model.num_parameters(), seed=seed, threads=threads, progress=progress)
    (folder / CARD).write_text(json.dumps(json.loads(fields_json(card)), indent=2) + "\n")
    put_files(folder, target)
    return card


def put_files(source: Path, target: Path) -> None:
    """Replaces each file atomically, so that processes that have the old one mapped keep it."""
    target.mkdir(parents=True, exist_ok=True)
    for file in sorted(source.iterdir()):
        partial = target / f".{file.name}.partial"
        shutil.copyfile(file, partial)
        partial.replace(target / file.name)


def _evaluate(
    recipe: Recipe, folder: Path, parameters: int, *, seed: int, threads: int, progress: Progress
) -> Card:
    """The card of the saved model: its weights are rounded and loaded again."""
    kit = resolve_kit(recipe.environment)
    runtime = AgentRuntime(kit, limits_of(recipe))
    version = AgentVersion("nano", "base", "local_model", model=str(folder), parameters={"temperature": 1.0})
    heldout: dict[str, Figure] = {}
    tasks = evaluation_tasks(kit, recipe.families, HELDOUT_TASKS, seed=seed, split="heldout")
    for name, temperature in (("sampled", 1.0), ("greedy", 0.0)):
        progress.stage(f"Held-out evaluation, {name}", 1)
        result = evaluate_version(runtime, version, tasks, Purpose(f"card/{name}", seed, temperature), pool=None)
        heldout[name] = _figure(result.interval())
        for level in levels_of(result.marks):
            heldout[f"{name}_L{level}"] = _figure(result.interval(level=level))
        for family in families_of(result.marks):
            heldout[f"{name}_{family}"] = _figure(result.interval(family=family))
        progress.advance(1, success=result.rate())
    progress.stage("pass@8", len(recipe.families))
    pass_rates: dict[str, float] = {}
    lengths: dict[int, list[int]] = {}
    for family in recipe.families:
        tasks = list(islice(kit.tasks(seed=seed + 1, split="train", families=[family]), PASS_TASKS))
        jobs = [(version, task, number) for task in tasks for number in range(SAMPLES)]
        trajectories = runtime.rollout(jobs, Purpose(f"card/pass/{family}", seed, 1.0))
        solved = {
            task.id
            for (_, task, _), trajectory in zip(jobs, trajectories, strict=True)
            if verify(kit.verifier, task, trajectory).is_success
        }
        pass_rates[family] = len(solved) / len(tasks)
        rows = [row for trajectory in trajectories for row in trajectory.rows]
        lengths.setdefault(kit.families[family], []).extend(len(row.token_ids) for row in rows)
        progress.advance(1, pass_at_8=pass_rates[family])
    return Card(
        name=recipe.model,
        architecture=f"Qwen2, 4 layers, width 128, vocabulary {recipe.vocabulary:,}",
        parameters=parameters,
        steps=recipe.steps,
        schedule=tuple(recipe.schedule),
        seed=seed,
        threads=threads,
        data=recipe.data,
        weights_sha256=sha256((folder / "model.safetensors").read_bytes()).hexdigest(),
        tokenizer_sha256=sha256((folder / "tokenizer.json").read_bytes()).hexdigest(),
        heldout=heldout,
        pass_at_8=pass_rates,
        tokens_per_trajectory={f"L{level}": sum(counts) / len(counts) for level, counts in sorted(lengths.items())},
    )


def _figure(interval: Interval) -> Figure:
    return {"value": interval.mean, "low": interval.low, "high": interval.high, "n": interval.n}

"""Training on imported files: the loss falls, and what was imported becomes likelier on conversations held out."""

import json
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

import torch

from benchmarks.errands import MODEL
from upturn.config import AgentConfig
from upturn.loop.evaluation.evaluate import HeldoutResult
from upturn.loop.rollouts.imported_rows import imported_rows
from upturn.loop.run.context import version_of
from upturn.loop.trainers import parse_full_config
from upturn.loop.trainers.algorithms import dpo, sft
from upturn.models import load_local
from upturn.models.upstreams import script_for
from upturn.pool import IngestOptions, Pool, ingest
from upturn.records import Trajectory

NANO = AgentConfig(name="nano", kind="local_model", model=MODEL)
NAMES = ("Ada", "Ben", "Cleo", "Dan", "Eve", "Finn", "Gus", "Hal")
TRAINED = 6
"""The other names are held out."""


def talks(names: Sequence[str]) -> list[dict[str, object]]:
    return [
        {
            "messages": [
                {"role": "user", "content": f"Greet {name}."},
                {"role": "assistant", "content": f"A good day to you, {name}."},
            ],
            "reward": 1.0,
        }
        for name in names
    ]


def pairs(names: Sequence[str]) -> list[dict[str, object]]:
    return [
        {"prompt": f"Greet {name}.", "chosen": f"Good day, {name}.", "rejected": f"What now, {name}?"}
        for name in names
    ]


def imported(path: Path, rows: Sequence[object]) -> list[Trajectory]:
    """Writes the rows to a file and imports it into a pool beside it."""
    path.write_text("\n".join(map(json.dumps, rows)))
    with Pool.open(path.with_suffix(".db")) as pool:
        assert ingest(pool, path, IngestOptions()).bad == 0
        return list(pool.trajectories(tenant="default"))


def likelihoods(model: str, trajectories: Sequence[Trajectory]) -> list[float]:
    """The mean log-probability of the written tokens of each conversation."""
    local = load_local(model)
    script = script_for(local.renderer(), "")
    means = []
    for trajectory in trajectories:
        (row,) = imported_rows(trajectory, script)
        (span,) = row.spans
        with torch.no_grad():
            logits = local.model(input_ids=torch.tensor([row.token_ids])).logits[0].float()
        written = torch.tensor(row.token_ids[span.start : span.stop])
        logprobs = torch.log_softmax(logits[span.start - 1 : span.stop - 1], -1)
        means.append(float(logprobs.gather(1, written[:, None]).mean()))
    return means


def trained(desk: ModuleType, folder: Path, algorithm: str, **settings: object) -> tuple[str, list[float]]:
    """The folder of the new weights, and the loss of each step; of a run on ``imports.db``."""
    family = "chat" if algorithm == "sft" else "preference"
    pool = {"path": str(folder / "imports.db"), "imported_families": [family]}
    agent = {"name": "nano", "kind": "local_model", "model": MODEL}
    environment = {"name": "toy_desk:kit", "max_tokens": 128, "max_action_tokens": 32}
    sections = {"agents": [agent], "environment": environment, "run": {"threads": 1}, "pool": pool}
    config = parse_full_config({**sections, algorithm: settings})
    before = HeldoutResult("before", "nano@base", 1.0, ())
    with desk.opened(folder / "run", config) as context:
        lesson = sft if algorithm == "sft" else dpo
        version = lesson.train(context, version_of(NANO), before, algorithm)
    curve = (folder / "run" / "training" / algorithm / "curve.jsonl").read_text().splitlines()
    return version.model, [json.loads(line)["loss"] for line in curve]


def test_supervised_training_makes_held_out_answers_likelier(desk: ModuleType, tmp_path: Path) -> None:
    imported(tmp_path / "imports.jsonl", talks(NAMES[:TRAINED]))
    model, losses = trained(desk, tmp_path, "sft", epochs=4, batch_rows=3)
    assert losses[-1] < losses[0] / 2
    held_out = imported(tmp_path / "held_out.jsonl", talks(NAMES[TRAINED:]))
    before, after = likelihoods(MODEL, held_out), likelihoods(model, held_out)
    assert all(new > old + 1 for old, new in zip(before, after, strict=True))


def test_preference_training_prefers_held_out_answers(desk: ModuleType, tmp_path: Path) -> None:
    imported(tmp_path / "imports.jsonl", pairs(NAMES[:TRAINED]))
    model, losses = trained(desk, tmp_path, "dpo", epochs=4, batch_pairs=3)
    assert losses[-1] < losses[0]
    held_out = imported(tmp_path / "held_out.jsonl", pairs(NAMES[TRAINED:]))
    before, after = likelihoods(MODEL, held_out), likelihoods(model, held_out)
    for chosen in range(0, len(held_out), 2):
        assert after[chosen] - after[chosen + 1] > before[chosen] - before[chosen + 1]

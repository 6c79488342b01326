"""``upturn model``: the models that ship with the package, and how they are built."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from upturn.cli.live import LiveView
from upturn.cli.options import AsJson
from upturn.cli.output import emit, resume_hint
from upturn.errors import ModelError, UnknownNameError
from upturn.models import CARD, SHIPPED, rebuild_hint
from upturn.records import Result

model_app = typer.Typer()

_Name = Annotated[str, typer.Argument(help=f"A shipped model: {' or '.join(SHIPPED)}.")]


@model_app.command("info")
def info(name: _Name = "nano", as_json: AsJson = False) -> None:
    """Show a shipped model's card, and check its files."""
    from upturn.models import load_local

    folder = _folder(name)
    local = load_local(name)
    card = json.loads((folder / CARD).read_text())
    try:
        success = _success_results(card["heldout"])
    except (KeyError, TypeError, AttributeError) as exc:
        path = str(folder / CARD)
        raise ModelError(f"model {name!r}: {path!r} is damaged: no {exc}; {rebuild_hint(name)}") from exc
    size = sum(file.stat().st_size for file in folder.iterdir())
    results = [
        Result("parameters", float(local.model.num_parameters()), bar="1e6 to 3e6"),
        Result("package_bytes", float(size), "bytes", bar="<= 8000000", holds=size <= 8_000_000),
        *success,
    ]
    emit("model info", results, {"folder": str(folder), "card": card}, as_json=as_json)


@model_app.command("build-nano")
def build_nano(  # noqa: PLR0917  # one parameter per option
    name: _Name = "nano",
    work: Annotated[
        Path | None, typer.Option(help="Folder for checkpoints, from which a build resumes. Default: build/NAME.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option(help="Folder for the model. Default: its folder in Upturn.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the initial weights.")] = 0,
    threads: Annotated[int, typer.Option(min=1, help="Number of torch threads; the weights depend on it.")] = 1,
    as_json: AsJson = False,
) -> None:
    """Build a shipped model from scratch: tokenizer, pre-training on demonstrations, held-out evaluation, card."""
    target, work_folder = output or _folder(name), work or Path("build") / name
    command = f"upturn model build-nano {name} --work {work_folder} --threads {threads}"
    with LiveView(f"Build the model {name}") as view, resume_hint(command):
        from upturn.loop import build_model
        from upturn.training.pretraining import find_recipe

        card = build_model(find_recipe(name), work_folder, target, seed=seed, threads=threads, progress=view)
    emit("model build-nano", _success_results(card.heldout), {"folder": str(target)}, as_json=as_json)


@model_app.command("build-tagger")
def build_tagger(
    work: Annotated[Path, typer.Option(help="Folder for the checkpoint, from which a build resumes.")] = Path(
        "build/tagger"
    ),
    output: Annotated[
        Path | None, typer.Option(help="Folder for the tagger. Default: its folder in Upturn.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the documents and the initial weights.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Build the tagger of names, addresses and organisations: documents, training, evaluation, card."""
    from upturn.loop.tagger import build_tagger as build
    from upturn.pool.privacy import SHIPPED_TAGGER

    target = output or SHIPPED_TAGGER
    command = f"upturn model build-tagger --work {work} --seed {seed}"
    with LiveView("Build the tagger") as view, resume_hint(command):
        card = build(work, target, seed=seed, progress=view)
    results = [Result(f"{name}_found", share, "share") for name, share in card.validation.items()]
    results.append(
        Result("package_bytes", float(card.bytes), "bytes", bar="<= 1500000", holds=card.bytes <= 1_500_000)
    )
    emit("model build-tagger", results, {"folder": str(target)}, as_json=as_json)


def _success_results(heldout: Mapping[str, Any]) -> list[Result]:
    return [
        Result(f"{name}_success", float(figure["value"]), "share", figure["low"], figure["high"], figure["n"])
        for name, figure in heldout.items()
    ]


def _folder(name: str) -> Path:
    if name not in SHIPPED:
        raise UnknownNameError(f"no model {name!r} ships with Upturn; known: {', '.join(SHIPPED)}")
    return SHIPPED[name]


@model_app.command("memory")
def memory(  # noqa: PLR0917  # one parameter per option
    model: Annotated[str, typer.Argument(help="Folder or Hugging Face name; only its config.json is read.")],
    tokens: Annotated[
        int, typer.Option(min=1, help="Tokens of a micro-batch; a quarter of them is written.")
    ] = 4096,
    context: Annotated[int, typer.Option(min=1, help="Maximum tokens of a trajectory.")] = 1024,
    rollouts: Annotated[int, typer.Option(min=0, help="Concurrent rollouts in this process; 0 = none.")] = 64,
    rank: Annotated[int, typer.Option(min=1, help="Rank of an adapter on all linear layers.")] = 16,
    as_json: AsJson = False,
) -> None:
    """Estimate the memory of training a model on one GPU, for each form of its weights, without loading it."""
    from transformers import AutoConfig

    from upturn.config import OptimiserSettings
    from upturn.training.optimisation import Load, configured_shape, memory_choices

    try:
        config = AutoConfig.from_pretrained(model, trust_remote_code=False)
    except (OSError, ValueError) as exc:  # transformers' errors for a missing or unknown configuration
        raise ModelError(f"model {model!r} has no readable config.json: {str(exc).splitlines()[0]}") from exc
    shape, cached = configured_shape(config), rollouts * (context + 1)
    load = Load(tokens // 4, has_best=True, is_sampled=rollouts > 0, cached_tokens=cached, reserved_tokens=cached)
    settings = OptimiserSettings(micro_batch_tokens=tokens)
    results = [Result("parameters", float(shape.parameters))]
    for name, estimate in memory_choices(shape, settings, load, rank=rank).items():
        results.append(Result(f"memory {name}", estimate.total / 1e9, "GB"))
    emit("model memory", results, {"model": model}, as_json=as_json)

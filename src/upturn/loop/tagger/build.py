"""Building the shipped tagger: training from checkpoints, rounding, evaluation on other names, card."""

import json
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from random import Random
from typing import NamedTuple

import numpy as np
from safetensors.numpy import load, save

from upturn.loop.progress import Progress
from upturn.loop.tagger.corpus import batches, make_block, make_lexicon
from upturn.loop.tagger.document import make_document
from upturn.loop.tagger.fit import Adam, Floats, Parameters, forward, gradients, initial
from upturn.loop.tagger.measure import Shares, measure_shares
from upturn.loop.tagger.quantise import quantised
from upturn.pool.privacy.tagger import CARD, LABELS, WEIGHTS, Costs, Lexicon, Tagger
from upturn.records import fields_json, record

_PASSES = 3
"""Times that each block is read; making documents takes longer than learning from them."""
_BATCH_TOKENS = 8192
_RATE = 0.004
_WARMUP_STEPS = 50
_LOWEST_RATE = 0.02
"""Share of the learning rate at the end."""
_CHANGE, _CERTAIN = 1.0, 6.0
"""Costs of decoding in natural logarithms."""
_LABEL_COSTS = (0.0, 0.5, 1.0, 1.0)
_UNKNOWN = 5.0
"""Likewise for a person, where a word with a capital is in no list; chosen on the documents of validation, on those
of ``benchmarks privacy`` and on texts without names."""
_LABEL_WEIGHTS = np.ones(len(LABELS), np.float32)
_USUAL_QUANTILE = 0.9999
_CALIBRATION_TOKENS = 30_000
_CHECKPOINT = "checkpoint.npz"


class Size(NamedTuple):
    """How much is learned and evaluated."""

    steps: int = 1200
    block_tokens: int = 420_000
    """Tokens between two checkpoints."""
    documents: int = 2000
    """Of the evaluation."""


FULL = Size()
"""Of the shipped tagger."""


@record
class TaggerCard:
    """The tagger's card: architecture, training and shares on documents with names that it was not trained on."""

    name: str
    architecture: str
    parameters: int
    bytes: int
    steps: int
    seed: int
    data: str
    weights_sha256: str
    costs: dict[str, int | tuple[int, ...]]
    """Of decoding, in the unit of the scores."""
    validation: dict[str, float]
    """Shares of the parts of generated documents that are found whole, and of other words that are left alone; one
    name of ten is only in these documents."""
    validation_documents: int


def build_tagger(work: Path, target: Path, *, seed: int, progress: Progress, size: Size = FULL) -> TaggerCard:
    """Builds the tagger in ``work``, resuming from its checkpoint, and finally writes the files of ``target``."""
    progress.stage("Training", size.steps)
    done = 0

    def show(step: int, loss: float) -> None:
        nonlocal done
        progress.advance(step - done, loss=loss)
        done = step

    hashes = make_lexicon(seed, size.block_tokens)
    lexicon = Lexicon(*hashes)
    parameters = _trained(work, lexicon, seed=seed, size=size, show=show)
    calibration = make_block(f"{seed} calibration", "train", min(_CALIBRATION_TOKENS, size.block_tokens), lexicon)
    made = forward(parameters, calibration, slice(0, len(calibration.numbers)))
    usual = (float(np.quantile(made.first, _USUAL_QUANTILE)), float(np.quantile(made.second, _USUAL_QUANTILE)))
    weights, scale = quantised(parameters, usual, hashes)
    costs = Costs(
        round(_CHANGE * scale),
        round(_CERTAIN * scale),
        tuple(round(cost * scale) for cost in _LABEL_COSTS),
        round(_UNKNOWN * scale),
    )
    progress.stage("Validation", 1)
    source = Random(f"{seed} validation")
    documents = [make_document(source, "validation") for _ in range(size.documents)]
    shares = measure_shares(Tagger(weights, costs), documents)
    progress.advance(1, untouched=shares.untouched)
    content = save({name: np.ascontiguousarray(value) for name, value in weights._asdict().items()})
    card = _card(content, costs, shares, seed=seed, size=size)
    target.mkdir(parents=True, exist_ok=True)
    _put(target / WEIGHTS, content)
    _put(target / CARD, (json.dumps(json.loads(fields_json(card)), indent=2) + "\n").encode())
    return card


def _trained(
    work: Path, lexicon: Lexicon, *, seed: int, size: Size, show: Callable[[int, float], None]
) -> Parameters:
    """Returns the parameters after all steps; continues from the checkpoint in ``work``."""
    work.mkdir(parents=True, exist_ok=True)
    steps = size.steps
    optimiser = Adam(initial(seed))
    block = _resume(optimiser, work / _CHECKPOINT, seed=seed, steps=steps)
    while optimiser.steps < steps:
        documents = make_block(f"{seed} {block}", "train", size.block_tokens, lexicon)
        for part in [*batches(documents, _BATCH_TOKENS)] * _PASSES:
            if optimiser.steps == steps:
                break
            warm = min(1.0, (optimiser.steps + 1) / _WARMUP_STEPS)
            rate = _RATE * warm * max(_LOWEST_RATE, 1 - optimiser.steps / steps)
            loss, slopes = gradients(optimiser.parameters, documents, part, _LABEL_WEIGHTS)
            optimiser.step(slopes, rate)
        block += 1
        _save(optimiser, work / _CHECKPOINT, block=block, seed=seed, steps=steps)
        show(optimiser.steps, loss)
    return optimiser.parameters


def _save(optimiser: Adam, path: Path, *, block: int, seed: int, steps: int) -> None:
    arrays: dict[str, Floats] = {}
    for kind, values in _states(optimiser).items():
        arrays |= {f"{kind} {name}": value for name, value in values.items()}
    partial = path.with_suffix(".partial.npz")
    np.savez(partial, place=np.array([optimiser.steps, block, seed, steps]), **arrays)  # type: ignore[arg-type]
    partial.replace(path)


def _resume(optimiser: Adam, path: Path, *, seed: int, steps: int) -> int:
    """Sets the optimiser to the checkpoint of the same seed and steps, if there is one; returns the next block."""
    if not path.exists():
        return 0
    with np.load(path) as stored:
        done, block, *made_for = stored["place"].tolist()
        if made_for != [seed, steps]:
            return 0
        optimiser.steps = done
        for kind, values in _states(optimiser).items():
            for name in values:
                values[name] = stored[f"{kind} {name}"]
    return int(block)


def _states(optimiser: Adam) -> dict[str, Parameters]:
    return {"parameters": optimiser.parameters, "means": optimiser.means, "squares": optimiser.squares}


def _card(content: bytes, costs: Costs, shares: Shares, *, seed: int, size: Size) -> TaggerCard:
    return TaggerCard(
        name="tagger",
        architecture="features of words (24,576 x 24), 9 words to 48, 3 of these to 32, 4 labels",
        parameters=sum(value.size for value in load(content).values()),
        bytes=len(content),
        steps=size.steps,
        seed=seed,
        data="documents generated from lists of names, places, words and templates in upturn/loop/tagger/data",
        weights_sha256=sha256(content).hexdigest(),
        costs={"change": costs.change, "certain": costs.certain, "label": costs.label, "unknown": costs.unknown},
        validation={**shares.found, "untouched": shares.untouched},
        validation_documents=size.documents,
    )


def _put(path: Path, content: bytes) -> None:
    partial = path.with_name(f".{path.name}.partial")
    partial.write_bytes(content)
    partial.replace(path)

"""The tagger is built from generated documents; a build that was stopped gives the same bytes."""

from pathlib import Path
from random import Random

import numpy as np
import pytest

from upturn.loop.progress import NoProgress
from upturn.loop.tagger import Size, build_tagger
from upturn.loop.tagger.corpus import labels_of, make_block, make_lexicon
from upturn.loop.tagger.document import Marked, make_document, templates, unmarked
from upturn.loop.tagger.fit import forward, gradients, initial
from upturn.loop.tagger.mark import marked
from upturn.pool.privacy.tagger import LABELS, Lexicon, load_tagger

SMALL = Size(steps=3, block_tokens=9_000, documents=5)


class StoppedError(Exception):
    pass


class StoppingProgress(NoProgress):
    def advance(self, count: int = 1, **figures: float) -> None:
        if "loss" in figures:
            raise StoppedError


def test_stopped_build_gives_the_same_bytes(tmp_path: Path) -> None:
    card = build_tagger(tmp_path / "one", tmp_path / "whole", seed=1, progress=NoProgress(), size=SMALL)
    with pytest.raises(StoppedError):  # after the first block, which has two steps
        build_tagger(tmp_path / "two", tmp_path / "resumed", seed=1, progress=StoppingProgress(), size=SMALL)
    build_tagger(tmp_path / "two", tmp_path / "resumed", seed=1, progress=NoProgress(), size=SMALL)
    for name in ("model.safetensors", "card.json"):
        assert (tmp_path / "whole" / name).read_bytes() == (tmp_path / "resumed" / name).read_bytes()
    assert card.bytes < 1_500_000
    assert list(load_tagger(tmp_path / "whole")("")) == []


def test_documents_follow_from_the_seed_and_have_their_parts() -> None:
    one, two = (make_document(Random("a"), "train") for _ in range(2))
    assert one == two
    text = f"Dear {marked('person', 'Maria Silva')}, see {marked('address', 'Main St 5')}."
    document = unmarked(text)
    assert document == Marked("Dear Maria Silva, see Main St 5.", ((1, 5, 16), (2, 22, 31)))
    words, labels = labels_of(document)
    assert words == ["Dear", "Maria", "Silva", ", ", "see", "Main", "St", "5", "."]
    assert labels == [0, 1, 1, 0, 0, 2, 2, 2, 0]


def test_every_template_can_be_filled() -> None:
    source = Random(0)
    for _ in range(2 * len(templates())):
        document = make_document(source, "validation")
        assert all(0 < label < len(LABELS) and document.text[start:stop] for label, start, stop in document.parts)


def test_gradients_agree_with_differences() -> None:
    block = make_block("gradients", "train", 300, Lexicon(*make_lexicon(0, 1000)))
    part = slice(10, 200)
    parameters = initial(0)
    weights = np.ones(len(LABELS), np.float32)
    loss, slopes = gradients(parameters, block, part, weights)
    assert forward(parameters, block, part).scores.shape == (190, len(LABELS))
    step = 1e-2
    for name in ("labels", "second", "places", "features", "hidden_bias"):
        place = np.unravel_index(np.abs(slopes[name]).argmax(), slopes[name].shape)
        parameters[name][place] += step
        higher, _ = gradients(parameters, block, part, weights)
        parameters[name][place] -= 2 * step
        lower, _ = gradients(parameters, block, part, weights)
        parameters[name][place] += step
        assert (higher - lower) / (2 * step) == pytest.approx(float(slopes[name][place]), rel=0.1), name
    assert loss > 0

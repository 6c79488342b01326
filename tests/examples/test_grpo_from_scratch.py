"""The script and the library are the same algorithm: loss, gradient and weights agree; and its reward rises."""

import importlib.util
import inspect
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
import torch

from upturn.training.runs import read_curve
from upturn.training.runs.run_folder import CURVE_FILE

PATH = Path(__file__).parents[2] / "examples" / "grpo_from_scratch.py"


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("grpo_from_scratch", PATH)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_loss_gradient_and_weights_equal_the_librarys(script: ModuleType, tmp_path: Path) -> None:
    """Over four iterations of two steps, clip and all; AdamW turns rounding of 1e-7 into about 1e-4 of a step."""
    ours, theirs = script.make_model(), script.make_model()
    steps = script.train(ours, 4)
    script.train_with_library(theirs, 4, str(tmp_path))
    points = read_curve(tmp_path / CURVE_FILE)
    assert len(points) == 4
    for index, point in enumerate(points):
        own = steps[2 * index : 2 * index + 2]
        assert point.metrics["loss"] == pytest.approx(sum(step.loss for step in own) / 2, rel=1e-4, abs=1e-7)
        assert point.metrics["grad_norm"] == pytest.approx(sum(step.grad_norm for step in own) / 2, rel=1e-4)
        assert point.metrics["mean_return"] == pytest.approx(own[0].reward, rel=1e-6)
    assert steps[1].loss != steps[0].loss, "the second pass has other weights than the sampler"
    for before, one, other in zip(
        script.make_model().parameters(), ours.parameters(), theirs.parameters(), strict=True
    ):
        torch.testing.assert_close(one, other, rtol=0, atol=2e-4)
        assert float((one - before).detach().abs().max()) > 1e-2


def test_training_solves_the_game(script: ModuleType) -> None:
    """From a tenth of the points to nearly all."""
    steps = script.train(script.make_model(), 30)
    assert steps[0].reward < 0.2
    assert sum(step.reward for step in steps[-6:]) / 6 > 0.9


def test_it_is_short_and_needs_the_library_only_to_compare(script: ModuleType) -> None:
    text = PATH.read_text(encoding="utf-8")
    assert len(text.splitlines()) < 200
    comparison = inspect.getsource(script.train_with_library)
    assert "import upturn" not in text
    assert text.count("from upturn") == comparison.count("from upturn") == 5

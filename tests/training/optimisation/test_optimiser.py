"""AdamW in place and on float32 copies: small steps add up, states resume exactly, and all forms agree."""

from collections.abc import Callable, Mapping
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from upturn.config import OptimiserSettings
from upturn.errors import ConfigError, TrainingError
from upturn.training.distributed import World
from upturn.training.optimisation.optimiser import WeightOptimiser, round_stochastically

PLAIN = OptimiserSettings(learning_rate=1e-3, weight_decay=0.1)
MASTER = replace(PLAIN, precision="bfloat16_weights")
STOCHASTIC = replace(MASTER, rounding="stochastic")
EIGHT_BIT = replace(PLAIN, moments="8bit")


def _parameters(dtype: torch.dtype = torch.float32, count: int = 64) -> list[nn.Parameter]:
    generator = torch.Generator().manual_seed(0)
    shapes = ((count, 64), (count,))
    return [nn.Parameter(torch.randn(shape, generator=generator).mul_(0.1).to(dtype)) for shape in shapes]


def _train(parameters: list[nn.Parameter], settings: OptimiserSettings, steps: int = 5) -> WeightOptimiser:
    optimiser = WeightOptimiser(parameters, settings)
    _continue(optimiser, parameters, range(steps))
    return optimiser


def _continue(optimiser: WeightOptimiser, parameters: list[nn.Parameter], numbers: range) -> None:
    for number in numbers:
        with optimiser.collect():
            for part in range(2):  # two micro-batches
                _loss(parameters, number, part).backward()
        optimiser.clip(1.0)
        optimiser.step(1e-3, number)


def _loss(parameters: list[nn.Parameter], number: int, part: int) -> Tensor:
    generator = torch.Generator().manual_seed(100 * number + part)
    losses = [(torch.randn(p.shape, generator=generator).to(p) * p).float().sum() for p in parameters]
    return torch.stack(losses).sum()


def _torchs(parameters: list[nn.Parameter], steps: int = 5) -> None:
    """The same with torch alone."""
    adamw = torch.optim.AdamW(parameters, lr=1e-3, betas=(0.9, 0.95), weight_decay=0.1, fused=True)
    for number in range(steps):
        adamw.zero_grad()
        for part in range(2):
            _loss(parameters, number, part).backward()
        nn.utils.clip_grad_norm_(parameters, 1.0)
        adamw.step()


@pytest.mark.parametrize("offload", [False, True])
def test_float32_weights_get_torchs_steps_bit_for_bit(*, offload: bool) -> None:
    """With offload, the steps are taken on copies, here on the same device."""
    ours, theirs = _parameters(), _parameters()
    _train(ours, replace(PLAIN, offload=offload))
    _torchs(theirs)
    assert all(torch.equal(left, right) for left, right in zip(ours, theirs, strict=True))


def test_a_master_copy_gets_float32_steps_of_gradients_summed_in_float32() -> None:
    """The gradients of both micro-batches are exact in bfloat16, their sum is not."""
    weights, exact = _parameters(torch.bfloat16), _parameters()
    for weight, other in zip(weights, exact, strict=True):
        other.data = weight.detach().float()
    optimiser = _train(weights, MASTER, steps=1)
    adamw = torch.optim.AdamW(exact, lr=1e-3, betas=(0.9, 0.95), weight_decay=0.1, fused=True)
    for other in exact:
        other.grad = torch.zeros_like(other)
    for part in range(2):
        generator = torch.Generator().manual_seed(part)
        for other in exact:
            assert other.grad is not None
            other.grad += torch.randn(other.shape, generator=generator).to(torch.bfloat16)
    nn.utils.clip_grad_norm_(exact, 1.0)
    adamw.step()
    masters = [optimiser.state()[f"{index}.master"] for index in range(2)]
    assert all(torch.equal(master, other) for master, other in zip(masters, exact, strict=True))
    assert all(torch.equal(w, m.to(torch.bfloat16)) for w, m in zip(weights, masters, strict=True))


def _moved(step: Callable[[nn.Parameter, int], None]) -> Tensor:
    """How far 4,096 weights of 0.02 came in 1,000 steps of 1e-6 down a constant gradient."""
    weight = nn.Parameter(torch.full((4096,), 0.02).to(torch.bfloat16))
    before = weight.detach().float()
    for number in range(1000):
        step(weight, number)
    return before - weight.detach().float()


@pytest.mark.parametrize("settings", [MASTER, STOCHASTIC])
def test_steps_of_a_millionth_add_up_in_bfloat16(settings: OptimiserSettings) -> None:
    """AdamW's steps are 1e-6 each; neighbouring numbers at 0.02 are 1.2e-4 apart.

    With stochastic rounding a weight's movement has a standard deviation of 3.5e-4, the mean of 4,096 one of
    5.4e-6; six of them happen once in 10⁹ runs. The master's value is exact, its rounding adds up to 6.1e-5.
    """
    optimisers: dict[int, WeightOptimiser] = {}

    def step(weight: nn.Parameter, number: int) -> None:
        optimiser = optimisers.setdefault(0, WeightOptimiser([weight], replace(settings, weight_decay=0.0)))
        with optimiser.collect():
            weight.float().sum().backward()
        optimiser.step(1e-6, number)

    mean = float(_moved(step).mean())
    assert mean == pytest.approx(1e-3, abs=6.2e-5 if settings.rounding == "master" else 3.3e-5)


def test_plain_adamw_in_bfloat16_stands_still_at_a_millionth() -> None:
    """Why the two forms above exist."""
    adamw: dict[int, torch.optim.Optimizer] = {}

    def step(weight: nn.Parameter, _number: int) -> None:
        optimiser = adamw.setdefault(0, torch.optim.AdamW([weight], lr=1e-6, weight_decay=0.0))
        weight.grad = torch.ones_like(weight)
        optimiser.step()

    assert float(_moved(step).abs().max()) == 0.0


def test_stochastic_rounding_is_to_a_neighbour_with_an_exact_mean() -> None:
    """1 + 2⁻⁹ lies a quarter of the way from 1 to its neighbour 1 + 2⁻⁷.

    Of 40,000 draws 10,000 go up, with a standard deviation of 87; six of them happen once in 10⁹ runs.
    """
    values = torch.full((40_000,), 1 + 2**-9)
    rounded = round_stochastically(values, seed=1).float()
    assert set(rounded.tolist()) == {1.0, 1 + 2**-7}
    assert int((rounded > 1).sum()) == pytest.approx(10_000, abs=6 * 87)
    assert torch.equal(rounded, round_stochastically(values, seed=1).float())
    assert not torch.equal(rounded, round_stochastically(values, seed=2).float())
    exact = torch.tensor([0.0, -1.5, 2.0**-100])
    assert torch.equal(round_stochastically(exact, seed=0).float(), exact)


@pytest.mark.parametrize(
    "settings",
    [
        PLAIN,
        MASTER,
        STOCHASTIC,
        replace(PLAIN, offload=True),
        EIGHT_BIT,
        replace(MASTER, moments="8bit"),
        replace(STOCHASTIC, moments="8bit", offload=True),
    ],
    ids=lambda settings: f"{settings.precision}-{settings.rounding}-{settings.moments}-{settings.offload}",
)
def test_a_restored_state_continues_bit_for_bit(settings: OptimiserSettings) -> None:
    if settings.moments == "8bit":
        pytest.importorskip("bitsandbytes")
    dtype = torch.bfloat16 if settings.precision == "bfloat16_weights" else torch.float32
    whole = _parameters(dtype)
    _train(whole, settings, steps=6)
    first, resumed = _parameters(dtype), _parameters(dtype)
    state: Mapping[str, Tensor] = {
        name: tensor.clone() for name, tensor in _train(first, settings, steps=3).state().items()
    }
    for source, target in zip(first, resumed, strict=True):
        target.data.copy_(source)
    optimiser = WeightOptimiser(resumed, settings)
    optimiser.load_state(state)
    assert optimiser.state().keys() == state.keys()
    _continue(optimiser, resumed, range(3, 6))
    assert all(torch.equal(left, right) for left, right in zip(whole, resumed, strict=True))


def test_replaced_weights_are_not_overwritten_by_their_old_master_copy() -> None:
    """A round of expert iteration that restarts puts back the initial weights, with an empty state."""
    weights = _parameters(torch.bfloat16)
    initial = [weight.detach().clone() for weight in weights]
    optimiser = _train(weights, MASTER)
    trained = [weight.detach().clone() for weight in weights]
    for weight, before in zip(weights, initial, strict=True):
        weight.data.copy_(before)
    optimiser.load_state({})
    _continue(optimiser, weights, range(5))
    assert all(torch.equal(left, right) for left, right in zip(weights, trained, strict=True))
    for weight, before in zip(weights, initial, strict=True):
        weight.data.copy_(before)
    _continue(optimiser, weights, range(5, 6))
    assert all((w - before).abs().max() < 0.005 for w, before in zip(weights, initial, strict=True))


def test_eight_bit_moments_are_a_quarter_and_step_almost_the_same() -> None:
    pytest.importorskip("bitsandbytes")
    exact, rounded = _parameters(count=256), _parameters(count=256)
    before = [parameter.detach().clone() for parameter in exact]
    sizes = [
        sum(t.numel() * t.element_size() for t in _train(parameters, settings).state().values())
        for parameters, settings in ((exact, PLAIN), (rounded, EIGHT_BIT))
    ]
    assert sizes[1] < 0.3 * sizes[0]
    distance = max(float((left - right).detach().abs().max()) for left, right in zip(exact, rounded, strict=True))
    moved = max(float((left - right).detach().abs().max()) for left, right in zip(exact, before, strict=True))
    assert 0 < distance < 0.5 * moved


def test_nothing_is_kept_for_a_step_with_stochastic_rounding() -> None:
    """Two moments and the number of steps remain; no gradient, and no float32 weights."""
    weights = _parameters(torch.bfloat16)
    optimiser = _train(weights, STOCHASTIC)
    optimiser.free_gradients()
    assert {name.partition(".")[2] for name in optimiser.state()} == {"step", "exp_avg", "exp_avg_sq"}
    assert all(weight.grad is None for weight in weights)


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        (MASTER, "precision = 'bfloat16_weights'"),
        (EIGHT_BIT, "moments = '8bit'"),
        (replace(PLAIN, offload=True), "offload"),
    ],
)
def test_several_processes_refuse_what_only_one_supports(settings: OptimiserSettings, problem: str) -> None:
    with pytest.raises(TrainingError, match=problem):
        WeightOptimiser(_parameters(), settings, World(0, 2, 0, "cpu"))


def test_rounding_without_bfloat16_weights_is_refused() -> None:
    with pytest.raises(ConfigError, match="rounding='stochastic' would do nothing with precision='bfloat16'"):
        OptimiserSettings(precision="bfloat16", rounding="stochastic")


def test_a_missing_library_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "bitsandbytes", None)
    with pytest.raises(TrainingError, match=r"pip install 'upturn\[quantised\]'"):
        WeightOptimiser(_parameters(), EIGHT_BIT)

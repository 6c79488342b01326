"""Which device a value of ``run.device`` means, and that local models are put on it."""

import pytest
import torch

from upturn.errors import ConfigError
from upturn.loop.run.context import check_optimisers
from upturn.loop.trainers.registry import parse_full_config
from upturn.models import available_devices, choose_device, describe_device, load_local

TWO_CARDS = ("cuda:0", "cuda:1", "cpu")


@pytest.mark.parametrize(
    ("setting", "available", "chosen"),
    [
        ("auto", TWO_CARDS, "cuda:0"),
        ("auto", ("mps", "cpu"), "mps"),
        ("auto", ("cpu",), "cpu"),
        ("cuda", TWO_CARDS, "cuda:0"),
        ("cuda:1", TWO_CARDS, "cuda:1"),
        ("cpu", TWO_CARDS, "cpu"),
        ("mps", ("mps", "cpu"), "mps"),
    ],
)
def test_one_process_gets_the_named_or_the_first_device(
    setting: str, available: tuple[str, ...], chosen: str
) -> None:
    assert choose_device(setting, available=available) == chosen


@pytest.mark.parametrize("setting", ["cuda", "cuda:2", "mps"])
def test_an_absent_device_is_an_error_that_names_what_there_is(setting: str) -> None:
    available = ("cpu",) if setting == "cuda" else TWO_CARDS
    with pytest.raises(
        ConfigError, match=f"run.device = '{setting}' is not available.*has: {', '.join(available)}"
    ):
        choose_device(setting, available=available)


@pytest.mark.parametrize(
    ("setting", "rank", "chosen"), [("auto", 1, "cuda:1"), ("cuda", 0, "cuda:0"), ("cpu", 1, "cpu")]
)
def test_each_process_of_several_gets_a_card_of_its_own(setting: str, rank: int, chosen: str) -> None:
    assert choose_device(setting, available=TWO_CARDS, local_rank=rank) == chosen


def test_several_processes_use_the_cpu_where_there_is_no_card() -> None:
    assert choose_device("auto", available=("mps", "cpu"), local_rank=3) == "cpu"


@pytest.mark.parametrize(
    ("setting", "rank", "problem"),
    [("cuda:1", 0, "names one device"), ("mps", 0, "names one device"), ("auto", 2, "has 2 CUDA devices")],
)
def test_several_processes_cannot_share_a_card(setting: str, rank: int, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        choose_device(setting, available=TWO_CARDS, local_rank=rank)


@pytest.mark.parametrize("setting", ["cuda:", "gpu", "cuda:x", ""])
def test_other_names_are_refused_by_the_configuration(setting: str) -> None:
    with pytest.raises(ConfigError, match=r"run\.device"):
        parse_full_config(
            {"run": {"device": setting}, "agents": [{"name": "nano", "kind": "local_model", "model": "nano"}]}
        )


def test_this_machine_has_a_cpu_and_describes_its_devices() -> None:
    devices = available_devices()
    assert devices[-1] == "cpu"
    assert all(device in describe_device(device) for device in devices)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_model_is_loaded_on_the_card() -> None:
    assert load_local("nano", device=choose_device("cuda")).model.device == torch.device("cuda:0")


def test_an_optimiser_in_the_same_memory_cannot_be_offloaded() -> None:
    agents = [{"name": "nano", "kind": "local_model", "model": "nano"}]
    config = parse_full_config({"optimiser": {"offload": True}, "agents": agents})
    check_optimisers(config, "cuda:0")
    with pytest.raises(ConfigError, match=r"optimiser\.offload = true has no effect on the device 'cpu'"):
        check_optimisers(config, "cpu")
    own = parse_full_config({"sft": {"optimiser": {"offload": True}}, "agents": agents})
    with pytest.raises(ConfigError, match=r"sft\.optimiser\.offload = true"):
        check_optimisers(own, "cpu")

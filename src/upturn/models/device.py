"""The device that models run on: what the setting ``run.device`` means on this machine. Loads torch when called."""

from collections.abc import Sequence

from upturn.errors import ConfigError


def available_devices() -> tuple[str, ...]:
    """The devices of this machine, the preferred first: ``cuda:0`` and the like, ``mps``, and always ``cpu``."""
    import torch

    cuda = [f"cuda:{index}" for index in range(torch.cuda.device_count())] if torch.cuda.is_available() else []
    return (*cuda, *(["mps"] if torch.backends.mps.is_available() else []), "cpu")


def choose_device(
    setting: str = "auto", *, available: Sequence[str] | None = None, local_rank: int | None = None
) -> str:
    """The device for a value of ``run.device``; raises ConfigError for one that is not there, naming what is.

    ``auto`` is the first CUDA device, else MPS, else the CPU. ``available``: None = of this machine.
    ``local_rank``: number of this process on its machine when several train one model, each on a CUDA device of its
    own; None = a single process.
    """
    devices = available_devices() if available is None else available
    if local_rank is not None:
        return _of_rank(setting, [device for device in devices if device.startswith("cuda")], local_rank)
    chosen = devices[0] if setting == "auto" else f"{setting}:0" if setting == "cuda" else setting
    if chosen in devices:
        return chosen
    raise ConfigError(
        [
            f"run.device = {setting!r} is not available; this machine has: {', '.join(devices)}. Set one of these "
            "or 'auto', or install the build of torch for your device"
        ]
    )


def describe_device(device: str) -> str:
    """Its name, for a CUDA device with the card and its memory."""
    if not device.startswith("cuda"):
        return device
    import torch

    card = torch.cuda.get_device_properties(device)
    return f"{device} ({card.name}, {card.total_memory / 1e9:.0f} GB)"


def _of_rank(setting: str, cards: Sequence[str], local_rank: int) -> str:
    if setting == "cpu" or (setting == "auto" and not cards):
        return "cpu"
    if setting not in ("auto", "cuda"):
        problem = "names one device, and several processes train together; set 'auto', 'cuda' or 'cpu'"
    elif local_rank < len(cards):
        return cards[local_rank]
    else:
        problem = (
            f"gives each process a CUDA device: this one is number {local_rank} of its machine (from 0), which has "
            f"{len(cards)} CUDA devices; start one process a device, or compute on the CPU with "
            "run.device = 'cpu' and ACCELERATE_USE_CPU=true"
        )
    raise ConfigError([f"run.device = {setting!r} {problem}"])

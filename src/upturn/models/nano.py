"""The model that ships with the package: where it lies, and loading it or any folder like it."""

import json
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from upturn.errors import ModelError

if TYPE_CHECKING:
    from tokenizers import Tokenizer
    from transformers import PreTrainedModel

NANO_FOLDER = Path(__file__).parent / "nano"
"""The shipped model: config, weights (bfloat16), tokenizer, card."""
CARD = "card.json"
REBUILD = (
    "restore it with `git checkout` or by installing upturn again, or rebuild it with `upturn model build-nano`"
)


class LocalModel(NamedTuple):
    """A model that runs in this process, with its tokenizer."""

    model: "PreTrainedModel"
    """float32, in evaluation mode."""
    tokenizer: "Tokenizer"


def model_folder(name: str) -> Path:
    """``nano`` is the shipped model; anything else is a folder."""
    return NANO_FOLDER if name == "nano" else Path(name)


def load_local(name: str) -> LocalModel:
    """The model ``nano`` or in a folder; raises ModelError with what is missing, where, and the cure."""
    folder = model_folder(name)
    for file in ("config.json", "model.safetensors", "tokenizer.json"):
        if not (folder / file).is_file():
            cure = REBUILD if name == "nano" else "give a folder as transformers saves it, with tokenizer.json"
            raise ModelError(f"model {name!r}: {str(folder / file)!r} is missing; {cure}")
    if name == "nano":
        _check_shipped(folder)
    import torch
    from tokenizers import Tokenizer
    from transformers import AutoModelForCausalLM
    from transformers.utils import logging

    logging.disable_progress_bar()  # a bar per load would tear the live view apart
    cure = REBUILD if name == "nano" else "train or copy it again"
    try:
        tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, local_files_only=True)
    except Exception as exc:  # a damaged folder fails in the libraries below in many ways
        raise ModelError(f"model {name!r} in {str(folder)!r} cannot be loaded: {exc}; {cure}") from exc
    return LocalModel(model.eval(), tokenizer)


def _check_shipped(folder: Path) -> None:
    """Compares the weights file with the hash in the card: a truncated download must not serve quietly."""
    try:
        expected = json.loads((folder / CARD).read_text())["weights_sha256"]
    except (OSError, ValueError, KeyError) as exc:
        raise ModelError(f"model 'nano': {str(folder / CARD)!r} is missing or damaged; {REBUILD}") from exc
    found = sha256((folder / "model.safetensors").read_bytes()).hexdigest()
    if found != expected:
        raise ModelError(
            f"model 'nano': {str(folder / 'model.safetensors')!r} is damaged: its SHA-256 is {found}, "
            f"the card says {expected}; {REBUILD}"
        )

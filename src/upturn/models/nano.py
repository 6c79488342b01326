"""The model that ships with the package: where it lies, and loading it or any folder like it."""

import json
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

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
        loaded: Any = AutoModelForCausalLM.from_pretrained(
            folder,
            dtype=torch.float32,
            local_files_only=True,
            trust_remote_code=False,  # left out, a folder with code of its own would make it ask on the terminal
            output_loading_info=True,  # a pair then, which its annotation does not say
        )
        model, found = loaded
        _check_parts(model.config.vocab_size, tokenizer.get_vocab_size(), sorted(found["missing_keys"]))
    except Exception as exc:  # a damaged folder fails in the libraries below in many ways
        raise ModelError(f"model {name!r} in {str(folder)!r} cannot be loaded: {exc}; {cure}") from exc
    return LocalModel(model.eval(), tokenizer)


def _check_parts(embedded: int, known: int, missing: Sequence[str]) -> None:
    """Raises ValueError for what loads without complaint and then fails late, or serves noise."""
    if missing:
        raise ValueError(f"{len(missing)} weights are missing, such as {missing[0]}")
    if known > embedded:
        raise ValueError(f"its tokenizer knows {known} tokens, its weights only {embedded}")


def _check_shipped(folder: Path) -> None:
    """Compares weights and tokenizer with the hashes in the card: a truncated download must not serve quietly."""
    try:
        card = json.loads((folder / CARD).read_text())
        expected = {"model.safetensors": card["weights_sha256"], "tokenizer.json": card["tokenizer_sha256"]}
    except (OSError, ValueError, KeyError, TypeError) as exc:
        raise ModelError(f"model 'nano': {str(folder / CARD)!r} is missing or damaged; {REBUILD}") from exc
    for file, digest in expected.items():
        found = sha256((folder / file).read_bytes()).hexdigest()
        if found != digest:
            raise ModelError(
                f"model 'nano': {str(folder / file)!r} is damaged: its SHA-256 is {found}, "
                f"the card says {digest}; {REBUILD}"
            )

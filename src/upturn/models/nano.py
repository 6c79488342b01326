"""The model that ships with the package: where it lies, and loading it, or any other, by name."""

import json
from hashlib import sha256
from pathlib import Path

from upturn.errors import ModelError
from upturn.models.local import LocalModel, Precision, check_files, load_folder, load_model, tokenizer_folder

NANO_FOLDER = Path(__file__).parent / "nano"
"""The shipped model: config, weights (bfloat16), tokenizer, card."""
CARD = "card.json"
REBUILD = (
    "restore it with `git checkout` or by installing upturn again, or rebuild it with `upturn model build-nano`"
)


def model_folder(name: str) -> Path:
    """Where the model's tokenizer lies: ``nano`` is the shipped one, else a folder or the hub's files by name."""
    return NANO_FOLDER if name == "nano" else tokenizer_folder(name)


def load_local(name: str, *, precision: Precision = "float32") -> LocalModel:
    """The model ``nano``, in a folder, or of a Hugging Face name; raises ModelError with what is missing, where,
    and the cure.
    """
    if name != "nano":
        return load_model(name, precision=precision)
    check_files(name, NANO_FOLDER, cure=REBUILD)
    _check_shipped(NANO_FOLDER)
    return load_folder(name, NANO_FOLDER, precision=precision, cure=REBUILD)


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

"""The models that ship with the package: where they lie, and loading one of them, or any other, by name."""

import json
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path

from upturn.errors import ModelError
from upturn.models.local import LocalModel, Precision, check_files, load_folder, load_model, tokenizer_folder

SHIPPED: Mapping[str, Path] = {
    name: Path(__file__).parent / name.replace("-", "_") for name in ("nano", "nano-errands")
}
"""Folders of the shipped models by name: config, weights (bfloat16), tokenizer, card. ``nano`` works in the office,
``nano-errands`` in the small one."""
CARD = "card.json"


def model_folder(name: str) -> Path:
    """Where the model's tokenizer lies: a shipped one's folder, else a folder or the hub's files by name."""
    return SHIPPED[name] if name in SHIPPED else tokenizer_folder(name)


def load_local(name: str, *, precision: Precision = "float32") -> LocalModel:
    """A shipped model, one in a folder, or of a Hugging Face name; raises ModelError with what is missing, where,
    and the cure.
    """
    if name not in SHIPPED:
        return load_model(name, precision=precision)
    check_files(name, SHIPPED[name], cure=rebuilding(name))
    _check_shipped(name)
    return load_folder(name, SHIPPED[name], precision=precision, cure=rebuilding(name))


def rebuilding(name: str) -> str:
    """How a shipped model is had again."""
    return (
        "restore it with `git checkout` or by installing upturn again, or rebuild it with "
        f"`upturn model build-nano {name}`"
    )


def _check_shipped(name: str) -> None:
    """Compares weights and tokenizer with the hashes in the card: a truncated download must not serve quietly."""
    folder = SHIPPED[name]
    try:
        card = json.loads((folder / CARD).read_text())
        expected = {"model.safetensors": card["weights_sha256"], "tokenizer.json": card["tokenizer_sha256"]}
    except (OSError, ValueError, KeyError, TypeError) as exc:
        cure = rebuilding(name)
        raise ModelError(f"model {name!r}: {str(folder / CARD)!r} is missing or damaged; {cure}") from exc
    for file, digest in expected.items():
        found = sha256((folder / file).read_bytes()).hexdigest()
        if found != digest:
            raise ModelError(
                f"model {name!r}: {str(folder / file)!r} is damaged: its SHA-256 is {found}, "
                f"the card says {digest}; {rebuilding(name)}"
            )

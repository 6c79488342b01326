"""The models that ship with the package, and loading these or any other model by name."""

import json
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path

from upturn.errors import ModelError
from upturn.models.local import (
    LocalModel,
    Precision,
    check_files,
    find_folder,
    folder_renderer,
    load_folder,
    load_model,
    tokenizer_folder,
)
from upturn.models.renderer import Renderer
from upturn.records import JsonValue

SHIPPED: Mapping[str, Path] = {"nano": Path(__file__).parent / "nano"}
"""Folders of the shipped models by name: config, weights (bfloat16), tokenizer, card."""
CARD = "card.json"


def model_folder(name: str) -> Path:
    """The folder with the model's tokenizer: a shipped model's, else a local or downloaded one."""
    return SHIPPED[name] if name in SHIPPED else tokenizer_folder(name)


def load_local(name: str, *, precision: Precision = "float32", device: str = "cpu") -> LocalModel:
    """A shipped model, one in a folder, or of a Hugging Face name, on a device of ``choose_device``.

    Raises ModelError with problem and remedy.
    """
    if name not in SHIPPED:
        return load_model(name, precision=precision, device=device)
    check_files(name, SHIPPED[name], remedy=rebuild_hint(name))
    _check_shipped(name)
    return load_folder(name, SHIPPED[name], precision=precision, device=device, remedy=rebuild_hint(name))


def load_renderer(name: str, *, options: Mapping[str, JsonValue] | None = None) -> Renderer:
    """The renderer of a model without tools, from its tokenizer: no weights are loaded.

    Raises ModelError where there is no such model or its prompt format is unknown, and for options that its chat
    template does not have.
    """
    folder = model_folder(name)
    return folder_renderer(name, folder if folder.is_dir() else find_folder(name), options=options)


def rebuild_hint(name: str) -> str:
    """How to restore a shipped model, for error messages."""
    return (
        "restore it with `git checkout` or by installing upturn again, or rebuild it with "
        f"`upturn model build-nano {name}`"
    )


def _check_shipped(name: str) -> None:
    """Compares weights and tokenizer with the hashes in the card: a truncated download must not be served."""
    folder = SHIPPED[name]
    try:
        card = json.loads((folder / CARD).read_text())
        expected = {"model.safetensors": card["weights_sha256"], "tokenizer.json": card["tokenizer_sha256"]}
    except (OSError, ValueError, KeyError, TypeError) as exc:
        state = "damaged" if (folder / CARD).exists() else "missing"
        raise ModelError(f"model {name!r}: {str(folder / CARD)!r} is {state}; {rebuild_hint(name)}") from exc
    for file, digest in expected.items():
        actual = sha256((folder / file).read_bytes()).hexdigest()
        if actual != digest:
            raise ModelError(
                f"model {name!r}: {str(folder / file)!r} is damaged: its SHA-256 is {actual}, "
                f"the card has {digest}; {rebuild_hint(name)}"
            )

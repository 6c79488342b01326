"""Models that run in this process: found by folder or Hugging Face name, loaded, and given the renderer that fits.

Order of search: a folder of that name; the local cache of the Hugging Face hub; the hub itself. A folder holds a
model as transformers saves it, or a LoRA adapter as PEFT saves it: then its base is searched in the same way, and
the adapter is merged into it. Code that comes with a model is never run.

Not covered: slow tokenizers (without tokenizer.json), weights in other files than safetensors, quantised models.
"""

import json
import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from upturn.config import HUB_NAME
from upturn.errors import ModelError
from upturn.models.chat_template import ChatRenderer
from upturn.models.renderer import SPECIAL_TOKENS, CompactRenderer, Renderer
from upturn.records import JsonValue, Tool

if TYPE_CHECKING:
    from tokenizers import Tokenizer
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

Precision = Literal["float32", "bfloat16"]
_FILES = ["*.json", "*.safetensors", "*.jinja"]
"""What is fetched from the hub."""
_NOT_FILES = ["original/*", "consolidated*"]
"""The same weights once more, in other formats."""
_CURE = "give a folder as transformers saves it, with tokenizer.json"
_DAMAGED = "train or copy it again"
_ADAPTER = "adapter_config.json"


class LocalModel(NamedTuple):
    """A model that runs in this process, with its tokenizer."""

    model: "PreTrainedModel"
    """In evaluation mode; float32 unless asked otherwise."""
    tokenizer: "Tokenizer"
    chat: "PreTrainedTokenizerBase | None" = None
    """The tokenizer with its chat template; None = it has none."""
    name: str = "nano"
    """As it was asked for."""

    def renderer(self, tools: Sequence[Tool] = (), *, options: Mapping[str, JsonValue] | None = None) -> Renderer:
        """What fits the tokenizer: our grammar where it knows our four special tokens, else its chat template.

        ``tools``: what the template tells the model it can call; our grammar needs none. ``options``: variables of
        the template; None = none. Raises ModelError when the tokenizer has neither, and for options without a
        template.
        """
        if all(self.tokenizer.token_to_id(token) is not None for token in SPECIAL_TOKENS):
            if options:
                raise ModelError(
                    f"options {dict(options)!r} of a chat template have no effect on model {self.name!r}, which is "
                    "talked to in our own grammar; leave them out"
                )
            return CompactRenderer(self.tokenizer)
        if self.chat is None:
            raise ModelError(
                f"model {self.name!r} has neither a chat template nor the special tokens "
                f"{', '.join(SPECIAL_TOKENS)}, so it is not known how to talk to it; take its instruction-tuned "
                "sibling, or put the chat_template.jinja that belongs to it into its folder"
            )
        return ChatRenderer(self.chat, tools, options=options, stops=_stops(self.model))


def _stops(model: "PreTrainedModel") -> Sequence[int]:
    """The tokens that end a turn as the model's own settings say; some, as of Llama 3.1, end calls with another."""
    found: Any = getattr(model.generation_config, "eos_token_id", None)  # None, one id or several
    return [found] if isinstance(found, int) else found or []


def load_model(name: str, *, precision: Precision = "float32", cure: str = _DAMAGED) -> LocalModel:
    """The model of a folder or Hugging Face name; raises ModelError with what is missing or wrong, and the cure.

    A model needs no padding token: nothing is padded with tokens. Where its tokenizer has no end token, the one
    that its chat template ends a turn with stops it.
    """
    folder = find_folder(name)
    if (folder / _ADAPTER).is_file():
        return _with_adapter(name, folder, precision)
    check_files(name, folder, cure=_CURE)
    return load_folder(name, folder, precision=precision, cure=cure)


def find_folder(name: str) -> Path:
    """Where the model's files lie; raises ModelError when there are none to be had."""
    folder = folder_here(name)
    if folder.exists() or not HUB_NAME.match(name):
        return folder
    from huggingface_hub import snapshot_download

    try:
        return Path(snapshot_download(name, allow_patterns=_FILES, ignore_patterns=_NOT_FILES))
    except (OSError, ValueError) as exc:  # what the hub raises is one of them
        reason = str(exc).strip().splitlines()[0] if str(exc).strip() else type(exc).__name__
        raise ModelError(
            f"model {name!r}: there is no such folder, the local cache does not hold it and the Hugging Face "
            f"hub did not give it ({reason}); check the name and your access, run `hf download {name}` where "
            "there is a network, or give the path of a folder"
        ) from exc


def tokenizer_folder(name: str) -> Path:
    """Where tokenizer and chat template of a model lie: of an adapter, in its base's folder. Nothing is fetched.

    A path to nothing when there is no such model here.
    """
    folder = folder_here(name)
    return tokenizer_folder(_base_of(name, folder)) if (folder / _ADAPTER).is_file() else folder


def folder_here(name: str) -> Path:
    """The folder of that name, or where the hub's files of that name lie in the local cache; nothing is fetched.

    A path to nothing when there are none.
    """
    if not Path(name).exists() and HUB_NAME.match(name):
        from huggingface_hub import snapshot_download

        with suppress(OSError, ValueError):  # not in the cache
            return Path(
                snapshot_download(name, allow_patterns=_FILES, ignore_patterns=_NOT_FILES, local_files_only=True)
            )
    return Path(name)


def load_folder(name: str, folder: Path, *, precision: Precision = "float32", cure: str = _DAMAGED) -> LocalModel:
    """What lies in the folder, whose files must be there."""
    import torch
    from transformers import AutoModelForCausalLM
    from transformers.utils import logging

    logging.disable_progress_bar()  # a bar per load would tear the live view apart
    try:
        tokenizer, chat = _tokenizers(folder)
        loaded: Any = AutoModelForCausalLM.from_pretrained(
            folder,
            dtype=getattr(torch, precision),
            local_files_only=True,
            trust_remote_code=False,  # left out, a folder with code of its own would make it ask on the terminal
            output_loading_info=True,  # a pair then, which its annotation does not say
        )
        model, found = loaded
        _check_parts(model.config.vocab_size, tokenizer.get_vocab_size(), sorted(found["missing_keys"]))
    except Exception as exc:  # a damaged folder fails in the libraries below in many ways
        raise ModelError(f"model {name!r} in {str(folder)!r} cannot be loaded: {exc}; {cure}") from exc
    return LocalModel(model.eval(), tokenizer, chat, name)


def check_files(name: str, folder: Path, *, cure: str) -> None:
    """Raises ModelError naming the first file that a folder lacks."""
    weights = "model.safetensors"
    if (folder / f"{weights}.index.json").is_file():
        weights = f"{weights}.index.json"  # in several files
    for file in ("config.json", weights, "tokenizer.json"):
        if not (folder / file).is_file():
            raise ModelError(f"model {name!r}: {str(folder / file)!r} is missing; {cure}")


def _tokenizers(folder: Path) -> "tuple[Tokenizer, PreTrainedTokenizerBase | None]":
    """The tokenizer, and the same with its chat template where the folder holds one."""
    from tokenizers import Tokenizer

    tokenizer: Tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    if not _has_template(folder):
        return tokenizer, None
    from transformers import AutoTokenizer

    chat: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(
        folder, local_files_only=True, trust_remote_code=False
    )
    return tokenizer, chat if chat.chat_template else None


def _has_template(folder: Path) -> bool:
    settings = folder / "tokenizer_config.json"
    if (folder / "chat_template.jinja").is_file() or (folder / "chat_template.json").is_file():
        return True
    return settings.is_file() and bool(json.loads(settings.read_text()).get("chat_template"))


def _check_parts(embedded: int, known: int, missing: Sequence[str]) -> None:
    """Raises ValueError for what loads without complaint and then fails late, or serves noise."""
    if missing:
        raise ValueError(f"{len(missing)} weights are missing, such as {missing[0]}")
    if known > embedded:
        raise ValueError(f"its tokenizer knows {known} tokens, its weights only {embedded}")


def _with_adapter(name: str, folder: Path, precision: Precision) -> LocalModel:
    """The base that the adapter names, with the adapter merged into its weights."""
    base = _base_of(name, folder)
    try:
        from peft import PeftModel
    except ImportError as exc:
        raise ModelError(
            f"model {name!r} is a LoRA adapter, and PEFT is not installed: pip install 'upturn[lora]'"
        ) from exc
    loaded = load_model(base, precision=precision)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # PEFT reads what transformers is about to rename
            adapted: Any = PeftModel.from_pretrained(loaded.model, str(folder))
        model = adapted.merge_and_unload(safe_merge=True)
    except Exception as exc:  # a damaged folder fails in the libraries below in many ways
        raise ModelError(f"adapter {name!r} cannot be put on {base!r}: {exc}; {_DAMAGED}") from exc
    return loaded._replace(model=model.eval(), name=name)


def _base_of(name: str, folder: Path) -> str:
    """The model that the adapter in the folder belongs on."""
    if (folder / "config.json").is_file():
        raise ModelError(
            f"model {name!r}: {str(folder)!r} holds a whole model and an adapter, and only one can be meant; move "
            f"{_ADAPTER} with its weights, or config.json with its weights, to a folder of its own"
        )
    try:
        base = json.loads((folder / _ADAPTER).read_text())["base_model_name_or_path"]
    except (OSError, ValueError, KeyError, TypeError) as exc:
        raise ModelError(f"adapter {name!r}: {str(folder / _ADAPTER)!r} is damaged: {exc}; {_DAMAGED}") from exc
    if not isinstance(base, str) or not base:
        raise ModelError(
            f"adapter {name!r} names no base model, got {base!r}; write its name or folder as "
            f"base_model_name_or_path into {str(folder / _ADAPTER)!r}"
        )
    return base

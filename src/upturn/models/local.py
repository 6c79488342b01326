"""Models that run in this process: located by folder or Hugging Face name, loaded, and given a renderer.

Order of search: a folder of that name; the local cache of the Hugging Face hub; the hub itself. A folder holds a
model as transformers saves it, or a LoRA adapter as PEFT saves it: then its base is located in the same way, and
the adapter is merged into it. Code that comes with a model is never run.

Of a vision-language model only the language model is used and trained; requests hold text only.

Not covered: slow tokenizers (without tokenizer.json), weights in other files than safetensors, quantised models.
"""

import json
import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib.util import find_spec
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

Precision = Literal["float32", "bfloat16", "nf4"]
"""Of the weights in memory. ``nf4``: 4 bits for linear layers (arXiv 2305.14314), bfloat16 for all others."""
_SELECTION: Any = {
    "allow_patterns": ["*.json", "*.safetensors", "*.jinja"],
    "ignore_patterns": ["original/*", "consolidated*"],  # the same weights in other formats
}
"""Files downloaded from the hub."""
_FOLDER_REMEDY = "give a folder as transformers saves it, with tokenizer.json"
_COPY_REMEDY = "train or copy it again"
_ADAPTER = "adapter_config.json"


class LocalModel(NamedTuple):
    """A model that runs in this process, with its tokenizer."""

    model: "PreTrainedModel"
    """In evaluation mode; float32 by default."""
    tokenizer: "Tokenizer"
    chat: "PreTrainedTokenizerBase | None" = None
    """The tokenizer with its chat template; None = it has none."""
    name: str = "nano"
    """As requested."""

    def renderer(self, tools: Sequence[Tool] = (), *, options: Mapping[str, JsonValue] | None = None) -> Renderer:
        """The compact grammar for a tokenizer with our four special tokens, else its chat template.

        ``tools``: listed by the template; the compact grammar needs none. ``options``: variables of the template;
        None = none. Raises ModelError when the tokenizer has neither, and for options without a template.
        """
        if all(self.tokenizer.token_to_id(token) is not None for token in SPECIAL_TOKENS):
            if options:
                raise ModelError(
                    f"chat template options {dict(options)!r} have no effect on model {self.name!r}, which uses "
                    "the compact grammar; remove them"
                )
            return CompactRenderer(self.tokenizer)
        if self.chat is None:
            raise ModelError(
                f"model {self.name!r} has neither a chat template nor the special tokens "
                f"{', '.join(SPECIAL_TOKENS)}, so its prompt format is unknown; use the instruction-tuned variant, "
                "or put its chat_template.jinja into its folder"
            )
        # Llama 3.1, for one, ends calls with another token than the template's
        eos: Any = getattr(self.model.generation_config, "eos_token_id", None)  # None, one id or several
        stops = [eos] if isinstance(eos, int) else eos or []
        return ChatRenderer(self.chat, tools, options=options, stops=stops)


def load_model(
    name: str, *, precision: Precision = "float32", device: str = "cpu", remedy: str = _COPY_REMEDY
) -> LocalModel:
    """The model in a folder or of a Hugging Face name; raises ModelError with the problem and the remedy.

    No padding token is needed: nothing is padded with tokens. A tokenizer without an end token uses the token that
    ends a turn in its chat template.
    """
    folder = find_folder(name)
    if (folder / _ADAPTER).is_file():
        return _with_adapter(name, folder, precision, device)
    check_files(name, folder, remedy=_FOLDER_REMEDY)
    return load_folder(name, folder, precision=precision, device=device, remedy=remedy)


def find_folder(name: str) -> Path:
    """The folder with the model's files, downloaded if need be; raises ModelError when there is none."""
    folder = local_folder(name)
    if folder.exists() or not HUB_NAME.match(name):
        return folder
    from huggingface_hub import snapshot_download

    try:
        return Path(snapshot_download(name, **_SELECTION))
    except (OSError, ValueError) as exc:  # the hub raises subclasses of these
        reason = str(exc).strip().splitlines()[0] if str(exc).strip() else type(exc).__name__
        raise ModelError(
            f"model {name!r}: there is no such folder, it is not in the local cache and it cannot be downloaded "
            f"from the Hugging Face hub ({reason}); check the name and your access, run `hf download {name}` where "
            "there is a network, or give the path of a folder"
        ) from exc


def tokenizer_folder(name: str) -> Path:
    """The folder with a model's tokenizer and chat template; for an adapter, its base's. Downloads nothing.

    A path that does not exist when there is no such local model.
    """
    folder = local_folder(name)
    return tokenizer_folder(_base_of(name, folder)) if (folder / _ADAPTER).is_file() else folder


def local_folder(name: str) -> Path:
    """The folder of that name, or the one in the local cache of the hub; downloads nothing.

    A path that does not exist when there is none.
    """
    if not Path(name).exists() and HUB_NAME.match(name):
        from huggingface_hub import snapshot_download

        with suppress(OSError, ValueError):  # not in the cache
            return Path(snapshot_download(name, local_files_only=True, **_SELECTION))
    return Path(name)


def load_folder(
    name: str,
    folder: Path,
    *,
    precision: Precision = "float32",
    device: str = "cpu",
    remedy: str = _COPY_REMEDY,
) -> LocalModel:
    """Loads the model from a folder whose files exist."""
    from transformers.utils import logging

    from upturn.models.engine import UnsupportedModelError, auto_class, freeze_other_parts

    logging.disable_progress_bar()  # progress bars would break the live view
    storage = _storage(precision, device)
    try:
        tokenizer, chat = _tokenizers(folder)
        loaded: Any = auto_class(folder).from_pretrained(
            folder,
            **storage,
            local_files_only=True,
            trust_remote_code=False,  # without it, a folder with code would prompt on the terminal
            output_loading_info=True,  # returns a pair, unlike its annotation
        )
        model, report = loaded
        # defects that load without error and fail later, or produce noise
        if missing := sorted(report["missing_keys"]):
            raise ValueError(f"{len(missing)} weights are missing, such as {missing[0]}")
        tokens, embeddings = tokenizer.get_vocab_size(), model.get_input_embeddings().num_embeddings
        if tokens > embeddings:
            raise ValueError(f"its tokenizer has {tokens} tokens, its weights only {embeddings}")
    except UnsupportedModelError as exc:
        raise ModelError(f"model {name!r} in {str(folder)!r} cannot be loaded: {exc}") from exc
    except Exception as exc:  # the libraries raise many types for a damaged folder
        raise ModelError(f"model {name!r} in {str(folder)!r} cannot be loaded: {exc}; {remedy}") from exc
    if precision == "nf4":
        for part in model.modules():
            if hasattr(part, "support_avx512bf16_for_cpu"):
                part.support_avx512bf16_for_cpu = False  # would repack weights for inference, without a gradient
    placed = model if precision == "nf4" else model.to(device)
    return LocalModel(freeze_other_parts(placed.eval()), tokenizer, chat, name)


def _storage(precision: Precision, device: str) -> dict[str, Any]:
    """Arguments of ``from_pretrained`` for weights in this form; raises ModelError without bitsandbytes."""
    import torch

    if precision != "nf4":
        return {"dtype": getattr(torch, precision)}
    if find_spec("bitsandbytes") is None:
        raise ModelError(
            "weights in 4 bits need bitsandbytes, which is not installed: pip install 'upturn[quantised]'"
        )
    from transformers import BitsAndBytesConfig

    form = BitsAndBytesConfig(
        load_in_4bit=True,
        bnb_4bit_quant_type="nf4",
        bnb_4bit_use_double_quant=True,
        bnb_4bit_compute_dtype=torch.bfloat16,
    )
    return {"dtype": torch.bfloat16, "quantization_config": form, "device_map": {"": device}}


def with_tokenizer(name: str, folder: Path, model: "PreTrainedModel") -> LocalModel:
    """A loaded model with the tokenizer of its folder; raises ModelError where that is damaged."""
    try:
        tokenizer, chat = _tokenizers(folder)
    except Exception as exc:  # the libraries raise many types for a damaged folder
        raise ModelError(f"the tokenizer in {str(folder)!r} cannot be loaded: {exc}; {_COPY_REMEDY}") from exc
    return LocalModel(model, tokenizer, chat, name)


def folder_renderer(name: str, folder: Path, *, options: Mapping[str, JsonValue] | None = None) -> Renderer:
    """The renderer of a model without tools, from its folder's tokenizer: no weights are loaded.

    Raises ModelError where the tokenizer is damaged or its prompt format is unknown, and for options that the
    template does not have.
    """
    unloaded: Any = _Unloaded(_generation_config(folder) if _has_template(folder) else None)
    return with_tokenizer(name, folder, unloaded).renderer(options=options)


class _Unloaded(NamedTuple):
    """What a renderer reads of a model."""

    generation_config: Any


def _generation_config(folder: Path) -> Any:
    from transformers import AutoConfig, GenerationConfig

    with suppress(OSError):  # the folder has none, and the model's configuration applies
        return GenerationConfig.from_pretrained(folder, local_files_only=True)
    config = AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    return GenerationConfig.from_model_config(config)


def check_files(name: str, folder: Path, *, remedy: str) -> None:
    """Raises ModelError naming the first file that a folder lacks."""
    weights = "model.safetensors"
    if (folder / f"{weights}.index.json").is_file():
        weights = f"{weights}.index.json"  # in several files
    for file in ("config.json", weights, "tokenizer.json"):
        if not (folder / file).is_file():
            raise ModelError(f"model {name!r}: {str(folder / file)!r} is missing; {remedy}")


def _tokenizers(folder: Path) -> "tuple[Tokenizer, PreTrainedTokenizerBase | None]":
    """The fast tokenizer, and the one with the chat template where the folder holds one."""
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
    if any((folder / name).is_file() for name in ("chat_template.jinja", "chat_template.json")):
        return True
    settings = folder / "tokenizer_config.json"
    return settings.is_file() and bool(json.loads(settings.read_text()).get("chat_template"))


def _with_adapter(name: str, folder: Path, precision: Precision, device: str) -> LocalModel:
    """The adapter's base model with the adapter merged into its weights."""
    base = _base_of(name, folder)
    try:
        from peft import PeftModel
    except ImportError as exc:
        raise ModelError(
            f"model {name!r} is a LoRA adapter, and PEFT is not installed: pip install 'upturn[lora]'"
        ) from exc
    if precision == "nf4":
        raise ModelError(
            f"model {name!r} is a LoRA adapter, which cannot be merged into weights in 4 bits; train from its "
            "merged version, or from its base"
        )
    loaded = load_model(base, precision=precision)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # PEFT uses a name that transformers deprecates
            adapted: Any = PeftModel.from_pretrained(loaded.model, str(folder))
        model = adapted.merge_and_unload(safe_merge=True)
    except Exception as exc:  # the libraries raise many types for a damaged folder
        raise ModelError(f"adapter {name!r} cannot be applied to {base!r}: {exc}; {_COPY_REMEDY}") from exc
    return loaded._replace(model=model.eval().to(device), name=name)


def _base_of(name: str, folder: Path) -> str:
    """The name of the adapter's base model."""
    if (folder / "config.json").is_file():
        raise ModelError(
            f"model {name!r}: {str(folder)!r} is ambiguous: it holds a full model and an adapter; move {_ADAPTER} "
            "with its weights, or config.json with its weights, to a separate folder"
        )
    try:
        base = json.loads((folder / _ADAPTER).read_text())["base_model_name_or_path"]
    except (OSError, ValueError, KeyError, TypeError) as exc:
        raise ModelError(f"adapter {name!r}: {str(folder / _ADAPTER)!r} is damaged: {exc}; {_COPY_REMEDY}") from exc
    if not isinstance(base, str) or not base:
        raise ModelError(
            f"adapter {name!r} names no base model, got {base!r}; write its name or folder as "
            f"base_model_name_or_path into {str(folder / _ADAPTER)!r}"
        )
    return base

"""Wire formats of engines that return token ids: vLLM's completions and SGLang's ``/generate``.

A dialect only builds requests and parses answers; ``remote`` validates the answers. Field names as in vLLM
(``entrypoints/openai/completion/protocol.py``, ``entrypoints/serve/lora``, ``entrypoints/serve/rpc`` for
``/collective_rpc``, whose method ``reload_weights`` takes ``weights_path`` by "Layerwise Weight Reloading" of its
documentation) and SGLang (``managers/io_struct.py``, ``managers/tokenizer_manager.py``), as of November 2026.

Every sampling parameter is sent: vLLM takes missing ones from the model's ``generation_config.json``, where top-k
or a penalty would change the distribution. Both apply min-p before top-k and top-p (``transformers`` after them).
``ignore_eos``: an end token stops generation only if it is a stop id.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, Protocol

from pydantic import Field

from upturn.config import SamplingSettings
from upturn.errors import ModelError
from upturn.models.calls import CallSchema, structural_tag
from upturn.models.model import GenerationRequest
from upturn.models.transport import WireModel

DialectName = Literal["vllm", "sglang"]
LogprobScale = Literal["raw", "processed"]
"""``raw``: log-probs of the model, before temperature; ``processed``: of the distribution sampled from."""
WeightsForm = Literal["adapter", "checkpoint"]
_TOKEN = "token_id:"  # vLLM's prefix for ids in place of text


def _options(sampling: SamplingSettings) -> dict[str, Any]:
    """The parameters with the same name in both dialects; every token is returned."""
    options: dict[str, Any] = {
        "ignore_eos": True,
        "skip_special_tokens": False,
        "top_p": sampling.top_p,
        "top_k": sampling.top_k or -1,
        "min_p": sampling.min_p,
        "repetition_penalty": sampling.repetition_penalty,
        "presence_penalty": 0.0,
        "frequency_penalty": 0.0,
    }
    if sampling.logit_bias:
        options["logit_bias"] = {str(token): bias for token, bias in sampling.logit_bias.items()}
    if sampling.stop:
        options["stop"] = list(sampling.stop)
    return options


def _structured(calls: CallSchema | None) -> dict[str, Any]:
    """vLLM's ``structured_outputs`` (0.12 and later)."""
    if calls is None:
        return {}
    if not calls.opening:
        return {"structured_outputs": {"json": json.loads(calls.schema)}}
    return {"structured_outputs": {"structural_tag": structural_tag(calls)}}


def _constraint(calls: CallSchema | None) -> dict[str, Any]:
    """SGLang's: one of its sampling parameters."""
    if calls is None:
        return {}
    return {"structural_tag": structural_tag(calls)} if calls.opening else {"json_schema": calls.schema}


_SEED_BITS = 31
"""SGLang stores seeds in 32 bits."""


class ServedModel(NamedTuple):
    """A model that an engine lists."""

    name: str
    """In requests."""
    root: str
    """Path or name of its weights; empty = not reported."""


class Call(NamedTuple):
    """An HTTP request: path and JSON body."""

    path: str
    payload: Mapping[str, Any]


class Answer(NamedTuple):
    """An engine's answer, parsed but not validated."""

    token_ids: tuple[int, ...]
    logprobs: tuple[float | None, ...]
    scored_ids: tuple[int, ...] | None
    """The ids that the log-probs belong to, where the engine reports them separately; None = it does not."""
    finish_reason: str
    version: str
    """The name of the weights that produced the answer; empty = not reported."""
    prompt_ids: tuple[int, ...] | None
    """The prompt ids as the engine received them; None = not reported."""
    prompt_tokens: int | None
    """Their number; None = not reported."""


class Dialect(Protocol):
    """The wire format of one kind of engine."""

    default_scale: LogprobScale
    forms: tuple[WeightsForm, ...]
    """The forms of weights that it can load at run time, the default first."""
    weights_have_names: bool
    """Whether full models that it loads have names, which its answers report."""

    def generate(self, request: GenerationRequest, budget: int, version: str) -> Call:
        """The request for a continuation of at most ``budget`` tokens from the weights named ``version``."""

    def parse(self, content: bytes) -> Answer:
        """Raises ValueError for content that is not an answer of this engine."""

    def load(self, folder: Path, version: str, form: WeightsForm) -> tuple[Call, ...]:
        """The requests, in order, to load the weights in a folder that the engine can read, under a name."""

    def unload(self, version: str, form: WeightsForm) -> Call | None:
        """The request to unload weights; None = none is needed."""

    def interrupt(self) -> tuple[Call, ...]:
        """The requests, in order, that end all generations early, with finish reason ``abort``, and admit new
        ones."""


_Id = Annotated[int, Field(ge=0)]


class _Logprobs(WireModel):
    token_logprobs: list[float | None] = Field(default_factory=list)
    tokens: list[str] = Field(default_factory=list)


class _Choice(WireModel):
    token_ids: list[_Id] | None = None
    prompt_token_ids: list[_Id] | None = None
    logprobs: _Logprobs | None = None
    finish_reason: str | None = None


class _Counts(WireModel):
    prompt_tokens: int | None = None


class _Completion(WireModel):
    model: str = ""
    choices: list[_Choice] = Field(min_length=1, max_length=1)
    usage: _Counts | None = None


class Vllm:
    """vLLM's ``/v1/completions`` and compatible servers: loads named adapters, or full models in place."""

    default_scale: LogprobScale = "raw"
    forms: tuple[WeightsForm, ...] = ("adapter", "checkpoint")
    weights_have_names = False

    def generate(self, request: GenerationRequest, budget: int, version: str) -> Call:
        """``return_tokens_as_token_ids`` adds the ids to the log-probs, so that the two can be compared."""
        return Call(
            "/v1/completions",
            {
                "model": version,
                "prompt": list(request.prompt_ids),
                "max_tokens": budget,
                "temperature": request.temperature,
                "seed": request.seed,
                "stop_token_ids": list(request.stop_ids),
                "include_stop_str_in_output": True,
                "logprobs": 0,
                "return_token_ids": True,
                "return_tokens_as_token_ids": True,
                **_options(request.sampling),
                **_structured(request.calls),
                "n": 1,
                "stream": False,
            },
        )

    def parse(self, content: bytes) -> Answer:
        """Raises ValueError where token ids or log-probs are missing."""
        body = _Completion.model_validate_json(content)
        choice = body.choices[0]
        if choice.token_ids is None:
            raise ValueError(
                "there are no token_ids; an engine that supports return_token_ids is needed (vLLM ≥ 0.10.2)"
            )
        if choice.logprobs is None:
            raise ValueError("there are no logprobs")
        tokens = choice.logprobs.tokens  # "token_id:11", or text where the engine does not return ids
        scored = [token.removeprefix(_TOKEN) for token in tokens if token.startswith(_TOKEN)]
        has_ids = 0 < len(scored) == len(tokens) and all(map(str.isdecimal, scored))
        return Answer(
            tuple(choice.token_ids),
            tuple(choice.logprobs.token_logprobs),
            tuple(map(int, scored)) if has_ids else None,
            choice.finish_reason or "",
            body.model,
            None if choice.prompt_token_ids is None else tuple(choice.prompt_token_ids),
            None if body.usage is None else body.usage.prompt_tokens,
        )

    def load(self, folder: Path, version: str, form: WeightsForm) -> tuple[Call, ...]:
        """vLLM must have been started with ``--enable-lora`` and ``VLLM_ALLOW_RUNTIME_LORA_UPDATING=True``, or for
        full models with ``VLLM_SERVER_DEV_MODE=1``. Prefixes cached with earlier weights are dropped."""
        if form == "adapter":
            return (Call("/v1/load_lora_adapter", {"lora_name": version, "lora_path": str(folder)}),)
        reload = {"method": "reload_weights", "kwargs": {"weights_path": str(folder)}}
        return Call("/collective_rpc", reload), Call("/reset_prefix_cache", {})

    def unload(self, version: str, form: WeightsForm) -> Call | None:
        """Frees one of the engine's adapter slots."""
        return Call("/v1/unload_lora_adapter", {"lora_name": version}) if form == "adapter" else None

    def interrupt(self) -> tuple[Call, ...]:
        """vLLM must have been started with ``VLLM_SERVER_DEV_MODE=1``."""
        return Call("/pause?mode=abort", {}), Call("/resume", {})


class _Finish(WireModel):
    type: str = ""


class _Meta(WireModel):
    finish_reason: _Finish | None = None
    output_token_logprobs: list[tuple[float | None, _Id, str | None]] | None = None
    prompt_tokens: int | None = None
    weight_version: str = ""


class _Generated(WireModel):
    meta_info: _Meta
    output_ids: list[_Id] | None = None


class Sglang:
    """SGLang's ``/generate``. Weights change by full checkpoints; each answer names their version."""

    default_scale: LogprobScale = "processed"
    forms: tuple[WeightsForm, ...] = ("checkpoint",)
    weights_have_names = True

    def generate(self, request: GenerationRequest, budget: int, version: str) -> Call:  # noqa: ARG002  # it serves one version at a time
        """The seed takes effect only with ``--enable-deterministic-inference``."""
        return Call(
            "/generate",
            {
                "input_ids": list(request.prompt_ids),
                "sampling_params": {
                    "max_new_tokens": budget,
                    "temperature": request.temperature,
                    "sampling_seed": request.seed % 2**_SEED_BITS,
                    "stop_token_ids": list(request.stop_ids),
                    "no_stop_trim": True,
                    **_options(request.sampling),
                    **_constraint(request.calls),
                },
                "return_logprob": True,
                "stream": False,
            },
        )

    def parse(self, content: bytes) -> Answer:
        """Raises ValueError where token ids or log-probs are missing."""
        body = _Generated.model_validate_json(content)
        meta = body.meta_info
        if meta.output_token_logprobs is None:
            raise ValueError("there are no output_token_logprobs")
        scored = tuple(token for _, token, _ in meta.output_token_logprobs)
        return Answer(
            scored if body.output_ids is None else tuple(body.output_ids),
            tuple(logprob for logprob, _, _ in meta.output_token_logprobs),
            scored,
            "" if meta.finish_reason is None else meta.finish_reason.type,
            meta.weight_version,
            None,
            meta.prompt_tokens,
        )

    def load(self, folder: Path, version: str, form: WeightsForm) -> tuple[Call, ...]:  # noqa: ARG002
        """Its caches are dropped too."""
        body = {"model_path": str(folder), "weight_version": version, "flush_cache": True}
        return (Call("/update_weights_from_disk", body),)

    def unload(self, version: str, form: WeightsForm) -> Call | None:  # noqa: ARG002
        """The next weights replace these."""
        return None

    def interrupt(self) -> tuple[Call, ...]:
        """Generations return what they have."""
        return Call("/pause_generation", {"mode": "abort"}), Call("/continue_generation", {})


class _Listed(WireModel):
    id: str
    root: str | None = None
    parent: str | None = None


class _Listing(WireModel):
    data: list[_Listed] = Field(min_length=1)


def parse_base_model(content: bytes) -> ServedModel:
    """The model of ``/v1/models`` that is no adapter; raises ValueError for other content."""
    listed = _Listing.model_validate_json(content).data
    base = next((model for model in listed if model.parent is None), listed[0])
    return ServedModel(base.id, base.root or "")


def dialect_of(name: DialectName) -> Dialect:
    """Raises ModelError for an unknown name."""
    known: dict[str, Dialect] = {"vllm": Vllm(), "sglang": Sglang()}
    if name not in known:
        raise ModelError(f"unknown dialect {name!r}; known: {', '.join(known)}")
    return known[name]

"""How to get tokens out of a model: the contract, renderers, and local, remote and scripted models.

A ``Model`` continues token ids; a ``Renderer`` turns observations and actions into ids and back. Not here: how an
agent uses them (``upturn.agents``) and training. Start with ``model``, then ``renderer`` (our grammar) or
``chat_template`` (any other model's). The in-process engine is the room ``upturn.models.engine``: it needs torch.
"""

from upturn.models.call import read_call, value_text, write_call
from upturn.models.calls import (
    JSON,
    PLAIN_NAME,
    Call,
    CallSchema,
    FunctionNames,
    Reading,
    Refusal,
    read_free_text,
    read_native_call,
    repaired,
)
from upturn.models.chat_template import ChatRenderer
from upturn.models.checker import RendererReport, check_renderer
from upturn.models.device import available_devices, choose_device, describe_device
from upturn.models.endpoint import ChatEndpoint, ToolsRefusedError
from upturn.models.engine_protocol import WeightsForm
from upturn.models.local import LocalModel, Precision, find_folder, local_folder, with_tokenizer
from upturn.models.model import FinishReason, Generation, GenerationRequest, Model
from upturn.models.observation import ObservationWriter, RenderedObservations
from upturn.models.remote import RemoteEngine, RemoteSettings
from upturn.models.renderer import (
    ERROR_TOKEN,
    GLUE,
    SPECIAL_TOKENS,
    CompactRenderer,
    ConversationRenderer,
    MessageRenderer,
    OutputPart,
    ParsedOutput,
    Renderer,
    RerenderingRenderer,
    first_message,
    last_message,
    next_prompt,
    read_parts,
    write_parts,
)
from upturn.models.scripted import ScriptedModel
from upturn.models.shipped import CARD, SHIPPED, load_local, load_renderer, model_folder, rebuild_hint
from upturn.models.teacher import RemoteTeacher, Scores, Scoring, ScoringSettings
from upturn.models.template_profile import call_id, tool_schema, tools_prompt
from upturn.models.transport import RetryPolicy

__all__ = [
    "CARD",
    "ERROR_TOKEN",
    "GLUE",
    "JSON",
    "PLAIN_NAME",
    "SHIPPED",
    "SPECIAL_TOKENS",
    "Call",
    "CallSchema",
    "ChatEndpoint",
    "ChatRenderer",
    "CompactRenderer",
    "ConversationRenderer",
    "FinishReason",
    "FunctionNames",
    "Generation",
    "GenerationRequest",
    "LocalModel",
    "MessageRenderer",
    "Model",
    "ObservationWriter",
    "OutputPart",
    "ParsedOutput",
    "Precision",
    "Reading",
    "Refusal",
    "RemoteEngine",
    "RemoteSettings",
    "RemoteTeacher",
    "RenderedObservations",
    "Renderer",
    "RendererReport",
    "RerenderingRenderer",
    "RetryPolicy",
    "Scores",
    "Scoring",
    "ScoringSettings",
    "ScriptedModel",
    "ToolsRefusedError",
    "WeightsForm",
    "available_devices",
    "call_id",
    "check_renderer",
    "choose_device",
    "describe_device",
    "find_folder",
    "first_message",
    "last_message",
    "load_local",
    "load_renderer",
    "local_folder",
    "model_folder",
    "next_prompt",
    "read_call",
    "read_free_text",
    "read_native_call",
    "read_parts",
    "rebuild_hint",
    "repaired",
    "tool_schema",
    "tools_prompt",
    "value_text",
    "with_tokenizer",
    "write_call",
    "write_parts",
]

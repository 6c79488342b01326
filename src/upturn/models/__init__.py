"""How to get tokens out of a model: the contract, renderers, and local, remote and scripted models.

A ``Model`` continues token ids; a ``Renderer`` turns observations and actions into ids and back. Not here: how an
agent uses them (``upturn.agents``) and training. Start with ``model``, then ``renderer`` (our grammar) or
``chat_template`` (any other model's). The in-process engine is the room ``upturn.models.engine``: it needs torch.
"""

from upturn.models.call import read_call, value_text, write_call
from upturn.models.call_format import JSON
from upturn.models.call_schema import CallSchema
from upturn.models.chat_template import ChatRenderer
from upturn.models.checker import RendererReport, check_renderer
from upturn.models.endpoint import ChatEndpoint, Completion, Message
from upturn.models.engine_protocol import WeightsForm
from upturn.models.local import LocalModel, Precision, local_folder
from upturn.models.model import FinishReason, Generation, GenerationRequest, Model
from upturn.models.observation import ObservationWriter, RenderedObservations
from upturn.models.remote import RemoteEngine, RemoteSettings
from upturn.models.renderer import (
    ERROR_TOKEN,
    SPECIAL_TOKENS,
    CompactRenderer,
    ConversationRenderer,
    ParsedOutput,
    Renderer,
    RerenderingRenderer,
    next_prompt,
)
from upturn.models.scripted import ScriptedModel
from upturn.models.shipped import CARD, SHIPPED, load_local, model_folder, rebuild_hint
from upturn.models.template_profile import tools_prompt

__all__ = [
    "CARD",
    "ERROR_TOKEN",
    "JSON",
    "SHIPPED",
    "SPECIAL_TOKENS",
    "CallSchema",
    "ChatEndpoint",
    "ChatRenderer",
    "CompactRenderer",
    "Completion",
    "ConversationRenderer",
    "FinishReason",
    "Generation",
    "GenerationRequest",
    "LocalModel",
    "Message",
    "Model",
    "ObservationWriter",
    "ParsedOutput",
    "Precision",
    "RemoteEngine",
    "RemoteSettings",
    "RenderedObservations",
    "Renderer",
    "RendererReport",
    "RerenderingRenderer",
    "ScriptedModel",
    "WeightsForm",
    "check_renderer",
    "load_local",
    "local_folder",
    "model_folder",
    "next_prompt",
    "read_call",
    "rebuild_hint",
    "tools_prompt",
    "value_text",
    "write_call",
]

"""How to get tokens out of a model. The local engine is imported as ``upturn.models.engine``: it needs torch."""

from upturn.models.call import read_call, value_text, write_call
from upturn.models.call_format import JSON
from upturn.models.chat_template import ChatRenderer
from upturn.models.checker import RendererReport, check_renderer
from upturn.models.endpoint import ChatEndpoint, Completion, Message
from upturn.models.engine_protocol import WeightsForm
from upturn.models.local import LocalModel, Precision, folder_here
from upturn.models.model import FinishReason, Generation, GenerationRequest, Model
from upturn.models.observation import ObservationWriter, RenderedObservations
from upturn.models.remote import RemoteEngine, RemoteSettings
from upturn.models.renderer import (
    ERROR_TOKEN,
    SPECIAL_TOKENS,
    CompactRenderer,
    ConversationRenderer,
    Renderer,
    RetellingRenderer,
    Written,
    next_prompt,
)
from upturn.models.scripted import ScriptedModel
from upturn.models.shipped import CARD, SHIPPED, load_local, model_folder, rebuilding
from upturn.models.template_profile import tools_prompt

__all__ = [
    "CARD",
    "ERROR_TOKEN",
    "JSON",
    "SHIPPED",
    "SPECIAL_TOKENS",
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
    "Precision",
    "RemoteEngine",
    "RemoteSettings",
    "RenderedObservations",
    "Renderer",
    "RendererReport",
    "RetellingRenderer",
    "ScriptedModel",
    "WeightsForm",
    "Written",
    "check_renderer",
    "folder_here",
    "load_local",
    "model_folder",
    "next_prompt",
    "read_call",
    "rebuilding",
    "tools_prompt",
    "value_text",
    "write_call",
]

"""How to get tokens out of a model. The local engine is imported as ``upturn.models.engine``: it needs torch."""

from upturn.models.call import read_call, value_text, write_call
from upturn.models.chat_template import ChatRenderer
from upturn.models.checker import RendererReport, check_renderer
from upturn.models.endpoint import ChatEndpoint, Completion, Message
from upturn.models.manner import tools_prompt
from upturn.models.model import FinishReason, Generation, GenerationRequest, Model
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

__all__ = [
    "ERROR_TOKEN",
    "SPECIAL_TOKENS",
    "ChatEndpoint",
    "ChatRenderer",
    "CompactRenderer",
    "Completion",
    "ConversationRenderer",
    "FinishReason",
    "Generation",
    "GenerationRequest",
    "Message",
    "Model",
    "Renderer",
    "RendererReport",
    "RetellingRenderer",
    "ScriptedModel",
    "Written",
    "check_renderer",
    "next_prompt",
    "read_call",
    "tools_prompt",
    "value_text",
    "write_call",
]

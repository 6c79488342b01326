"""How to get tokens out of a model. The local engine is imported as ``upturn.models.engine``: it needs torch."""

from upturn.models.call import read_call, value_text, write_call
from upturn.models.endpoint import ChatEndpoint, Completion, Message
from upturn.models.model import FinishReason, Generation, GenerationRequest, Model
from upturn.models.renderer import SPECIAL_TOKENS, CompactRenderer, Renderer, Written
from upturn.models.scripted import ScriptedModel

__all__ = [
    "SPECIAL_TOKENS",
    "ChatEndpoint",
    "CompactRenderer",
    "Completion",
    "FinishReason",
    "Generation",
    "GenerationRequest",
    "Message",
    "Model",
    "Renderer",
    "ScriptedModel",
    "Written",
    "read_call",
    "value_text",
    "write_call",
]

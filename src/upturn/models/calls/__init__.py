"""Tool calls in model output: how each model family writes them, one lenient reader, names of functions.

``reading`` holds the result types and lists every repair and refusal; ``json_value`` reads JSON that is almost
right; ``formats`` lists the formats, whose readers are in ``objects`` (JSON), ``tagged`` (markup), ``pythonic``,
``gemma`` and ``harmony``; ``free_text`` reads text in any of them, ReAct and our grammar. ``names`` maps functions
to actions; ``schema`` restores types; ``call_schema`` is what an output must look like to be a call. Not here:
chat templates (``upturn.models.chat_template``) and our grammar (``upturn.models.call``). Start with ``formats``.
"""

from upturn.models.calls.call_schema import CallSchema, call_schema, structural_tag
from upturn.models.calls.formats import CALL_FORMATS, JSON, CallFormat
from upturn.models.calls.free_text import read_free_text, read_native_call
from upturn.models.calls.names import ANY_NAME, PLAIN_NAME, FunctionNames, call_name
from upturn.models.calls.reading import Call, Reading, Refusal, Repair, repaired
from upturn.models.calls.schema import typed_arguments
from upturn.models.calls.writing import checked_arguments, is_same_call, json_call

__all__ = [
    "ANY_NAME",
    "CALL_FORMATS",
    "JSON",
    "PLAIN_NAME",
    "Call",
    "CallFormat",
    "CallSchema",
    "FunctionNames",
    "Reading",
    "Refusal",
    "Repair",
    "call_name",
    "call_schema",
    "checked_arguments",
    "is_same_call",
    "json_call",
    "read_free_text",
    "read_native_call",
    "repaired",
    "structural_tag",
    "typed_arguments",
]

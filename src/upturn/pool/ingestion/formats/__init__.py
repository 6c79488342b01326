"""Readers of the file formats of recorded conversations.

A new format is a reader in a module here and an entry in ``READERS``; the importer turns conversations into
records. Start with ``conversation``, which all readers share.
"""

from collections.abc import Callable, Mapping

from upturn.pool.ingestion.formats.chat import read_chat
from upturn.pool.ingestion.formats.conversation import (
    LABEL,
    NAME_RULE,
    TOOL,
    Conversation,
    Defaults,
    Line,
    LineError,
    Lines,
    OpenFile,
    Seen,
    is_name,
)
from upturn.pool.ingestion.formats.detection import AUTO, detect_format
from upturn.pool.ingestion.formats.inspect_log import read_inspect
from upturn.pool.ingestion.formats.json_text import text_lines
from upturn.pool.ingestion.formats.langfuse import read_langfuse
from upturn.pool.ingestion.formats.openai_evals import read_openai_evals
from upturn.pool.ingestion.formats.otlp import read_otlp, request_spans
from upturn.pool.ingestion.formats.otlp_protobuf import read_request
from upturn.pool.ingestion.formats.outcome_columns import (
    COST_SUFFIXES,
    FAMILY_NAMES,
    LARGEST_COST,
    MISSING,
    detected_models,
    number,
    outcome,
)
from upturn.pool.ingestion.formats.outcomes import read_outcomes
from upturn.pool.ingestion.formats.phoenix import read_phoenix
from upturn.pool.ingestion.formats.preference import read_preferences
from upturn.pool.ingestion.formats.span import Span
from upturn.pool.ingestion.formats.span_groups import span_lines
from upturn.pool.ingestion.formats.tau_bench import read_tau_bench
from upturn.pool.ingestion.formats.verifiers_results import read_verifiers

READERS: Mapping[str, Callable[[OpenFile, Defaults], Lines]] = {
    "tau-bench": read_tau_bench,
    "chat": read_chat,
    "otlp": read_otlp,
    "inspect": read_inspect,
    "langfuse": read_langfuse,
    "phoenix": read_phoenix,
    "verifiers": read_verifiers,
    "openai-evals": read_openai_evals,
    "preference": read_preferences,
    "outcomes": read_outcomes,
}
"""A reader yields every line or row of a file, parsed or with the reason why it is unusable."""

__all__ = [
    "AUTO",
    "COST_SUFFIXES",
    "FAMILY_NAMES",
    "LABEL",
    "LARGEST_COST",
    "MISSING",
    "NAME_RULE",
    "READERS",
    "TOOL",
    "Conversation",
    "Defaults",
    "Line",
    "LineError",
    "Lines",
    "OpenFile",
    "Seen",
    "Span",
    "detect_format",
    "detected_models",
    "is_name",
    "number",
    "outcome",
    "read_request",
    "request_spans",
    "span_lines",
    "text_lines",
]

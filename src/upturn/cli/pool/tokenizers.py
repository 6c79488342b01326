"""The tokenizers of a pool's agent versions, as far as they are on this machine."""

from upturn.errors import ConfigError, ModelError
from upturn.pool import PoolReader
from upturn.pool.quality import ReaderOf, TextReader


def token_readers(pool: PoolReader) -> ReaderOf:
    """Returns how each stored agent version's output is read, or why it cannot be; loads no weights."""
    versions = {version.id: version for version in pool.agent_versions()}

    def reader_of(version_id: str) -> TextReader | str:
        from upturn.agents import template_options
        from upturn.models import load_renderer

        version = versions.get(version_id)
        if version is None:
            return "the agent version is not stored"
        if not version.has_local_model:
            return "the model runs elsewhere"
        try:
            renderer = load_renderer(version.model, options=template_options(version))
        except (ModelError, ConfigError):
            return f"no tokenizer of {version.model!r}"
        return lambda token_ids: renderer.read(token_ids).text

    return reader_of

"""Building the tagger of names, addresses and organisations: documents, training in numpy, evaluation, card.

Not here: the tagger itself (``upturn.pool.privacy.tagger``). Start with ``build``, then ``document`` and ``fit``.
"""

from upturn.loop.tagger.build import Size, TaggerCard, build_tagger

__all__ = ["Size", "TaggerCard", "build_tagger"]

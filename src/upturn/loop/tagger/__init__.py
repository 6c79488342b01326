"""Building the tagger of names, addresses and organisations: documents, training in numpy, evaluation, card.

Not here: the tagger itself (``upturn.pool.privacy.tagger``). Start with ``build``, then ``document`` and ``fit``.
"""

from upturn.loop.tagger.build import Size, TaggerCard, build_tagger
from upturn.loop.tagger.name import all_names

__all__ = ["Size", "TaggerCard", "all_names", "build_tagger"]

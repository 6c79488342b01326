"""A small network that finds names of persons, addresses and organisations in a text.

Start with ``tagger``. How the shipped one is made: ``upturn.loop.tagger``.
"""

from upturn.pool.privacy.tagger.decoding import LABELS, Costs
from upturn.pool.privacy.tagger.feature import BUCKETS, FREQUENT, Hashes, Lexicon, hash_of
from upturn.pool.privacy.tagger.made_name import made_name
from upturn.pool.privacy.tagger.network import PLACES, REACH, Weights, norm_of
from upturn.pool.privacy.tagger.tagger import CARD, SHIPPED, WEIGHTS, Tagger, is_plausible, load_tagger, names
from upturn.pool.privacy.tagger.token import tokens_of

__all__ = [
    "BUCKETS",
    "CARD",
    "FREQUENT",
    "LABELS",
    "PLACES",
    "REACH",
    "SHIPPED",
    "WEIGHTS",
    "Costs",
    "Hashes",
    "Lexicon",
    "Tagger",
    "Weights",
    "hash_of",
    "is_plausible",
    "load_tagger",
    "made_name",
    "names",
    "norm_of",
    "tokens_of",
]

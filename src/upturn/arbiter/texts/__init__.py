"""What is learned from the words of calls: clusters of similar texts, which serve as families, and features.

Here: sketches of texts, online clustering, a fitted projection, and learning from a pool's sketches. Not here:
rules for families and the records of calls (``loop.online``). Start with ``learner``, then ``cluster``.
"""

from upturn.arbiter.texts.basis import FEATURES, TextBasis
from upturn.arbiter.texts.cluster import TextClusters
from upturn.arbiter.texts.learner import TextLearner
from upturn.arbiter.texts.sketch import BUCKETS, buckets_of, encode_buckets, text_buckets

__all__ = [
    "BUCKETS",
    "FEATURES",
    "TextBasis",
    "TextClusters",
    "TextLearner",
    "buckets_of",
    "encode_buckets",
    "text_buckets",
]

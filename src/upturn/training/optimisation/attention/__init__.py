"""Attention of the update over a token tree, by several backends. Needs torch.

Not here: the tree itself (``optimisation.tree``) and the choice of a backend (``optimisation.forward``). Start with
``tree_backends``.
"""

from upturn.training.optimisation.attention.tree_backends import Backend, TreeAttention, tree_attention

__all__ = ["Backend", "TreeAttention", "tree_attention"]

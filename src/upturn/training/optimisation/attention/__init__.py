"""Attention of the update over a token tree, by several backends. Needs torch.

Not here: the tree itself (``optimisation.tree``) and the choice of a backend (``optimisation.forward``). Start with
``tree_attention``.
"""

from upturn.training.optimisation.attention.tree_attention import Backend, TreeAttention, tree_attention

__all__ = ["Backend", "TreeAttention", "tree_attention"]

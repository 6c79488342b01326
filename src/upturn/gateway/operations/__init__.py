"""The endpoints for operators: releases. Every act is recorded with who, what, when and why.

Start with ``operator``, then ``release_routes``.
"""

from upturn.gateway.operations.operator import Operators
from upturn.gateway.operations.release_routes import release_routes

__all__ = ["Operators", "release_routes"]

"""Who calls: the tenant and the API key of a request."""

from collections.abc import Mapping
from typing import Protocol

from starlette.types import Scope

from upturn.loop.online import Client


class Access(Protocol):
    """Identifies clients."""

    def client(self, headers: Mapping[str, str], scope: Scope, /) -> Client:
        """Returns the caller; raises RequestError (401, 403) for one that may not call."""


class OpenAccess:
    """Every caller is the same client, for a server on loopback without keys."""

    def __init__(self, tenant: str) -> None:
        self._client = Client(tenant)

    def client(self, headers: Mapping[str, str], scope: Scope) -> Client:  # noqa: ARG002  as in the protocol
        """Returns the one client."""
        return self._client

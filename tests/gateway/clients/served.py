"""The gateway that clients call."""

from typing import NamedTuple

from tests.gateway.clients.vendor import Vendor

MODELS = ("chat", "responses", "messages")
"""Agents of the gateway, each named as the dialect of its upstream."""


class Served(NamedTuple):
    """A running gateway."""

    address: str
    vendor: Vendor

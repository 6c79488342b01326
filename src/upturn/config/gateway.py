"""The section of ``upturn.toml`` for the gateway: address, routes, sizes and retention."""

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field

from upturn.config.family import FamilyRule
from upturn.config.keys import ProviderToolPolicy
from upturn.config.metric import MetricConfig
from upturn.config.settings import Count, FilePath, Name, Positive, Settings, settings


@settings
class RouteConfig(Settings):
    """A name that clients put into ``model``, for a choice between agents; one ``[[gateway.routes]]`` table per
    route."""

    name: Name
    """Name of the route."""
    agents: tuple[Name, ...] = ()
    """Agents that calls of the route may go to. Empty = all."""
    aliases: tuple[Annotated[str, Field(min_length=1)], ...] = ()
    """Further names of the route, for clients whose model names are fixed. ``*`` stands for any characters, such as
    in ``claude-*``."""
    provider_tools: ProviderToolPolicy = "refuse"
    """What happens to requests that ask the provider to run a tool or to fetch something
    (docs/gateway-security.md). Calls that name an agent instead of a route are refused."""
    regions: tuple[Name, ...] = ()
    """Regions of agents that calls of the route may go to. Empty = any."""
    fallback: bool = True
    """Whether a call goes to another agent of the route if the chosen one fails before the first token."""


@settings
class EmbeddingsConfig(Settings):
    """A server whose embeddings describe the texts of calls to the routing policy."""

    url: Annotated[str, Field(pattern="^https?://")]
    """Base URL of a server with ``/embeddings`` in OpenAI's form, such as ``https://api.example.com/v1``."""
    model: Annotated[str, Field(min_length=1)]
    """Name of the model there."""
    api_key_env: str = ""
    """Environment variable with the API key. Empty = no key is sent,
    unless ``api_key_file`` names one."""
    api_key_file: FilePath = ""
    """File with the API key as its content, in place of ``api_key_env``; relative to the folder of the
    configuration file. It is read at the start and at each reload."""
    timeout_seconds: Positive = 0.5
    """Longest time that a call waits for its embedding. Then its words are hashed."""
    dimensions: Count | None = None
    """Length of the embeddings to ask for. More than 32 are folded into 32. Unset = as the model has; not all
    servers know the parameter."""


@settings
class GatewayConfig(Settings):
    """The HTTP server of ``upturn up`` (docs/gateway.md)."""

    host: Annotated[str, Field(min_length=1)] = "127.0.0.1"
    """Address that the server binds to."""
    port: Annotated[int, Field(ge=0, le=65535)] = 8000
    """Port of the server. 0 = any free port."""
    workers: Annotated[int, Field(ge=1, le=64)] = 1
    """Processes that have the clients' connections. 1 = the process that decides and stores has them too."""
    routes: tuple[RouteConfig, ...] = ()
    """The routes. Empty = one route ``default`` with all agents."""
    families: tuple[FamilyRule, ...] = ()
    """Rules for the family of calls that name none, in the order in which they are tried."""
    clusters: Annotated[int, Field(ge=0, le=200)] = 0
    """Largest number of families that are made of similar texts, for calls that no rule matches. 0 = these calls
    have the family ``general``."""
    text_features: Literal["svd", "hashing", "embeddings"] = "svd"
    """What describes a call's text to policies on features (docs/routing.md). ``svd``: principal directions of the
    texts so far, at first hashed words. ``hashing``: hashed words. ``embeddings``: those of a server; hashed words
    where it does not answer in time."""
    embeddings: EmbeddingsConfig | None = None
    """For ``text_features = "embeddings"``: the server."""
    metrics: tuple[MetricConfig, ...] = ()
    """What feedback may report. Empty = ``success`` from 0 to 1, which teaches the router, and ``thumbs`` from -1
    to 1, which does not."""
    max_body_bytes: Count = 32_000_000
    """Largest body of a request. Images by value need most."""
    keep_days: Positive = 30.0
    """Days for which the contents of calls are kept. Decisions, usage and costs stay. Sealed episodes are stored as
    trajectories, which stay too; an episode with feedback is sealed when it had no call for half of this time."""

    def problems(self) -> Iterator[str | None]:
        """Yields names that occur twice, rules that are out of reach, and a primary metric without weight."""
        for kind, names in (
            ("route", [route.name for route in self.routes]),
            ("metric", [metric.name for metric in self.metrics]),
        ):
            twice = sorted({name for name in names if names.count(name) > 1})
            yield f"{kind}s name {', '.join(map(repr, twice))} twice; name each {kind} once" if twice else None
        if (self.text_features == "embeddings") != (self.embeddings is not None):
            yield "text_features = 'embeddings' and [gateway.embeddings] belong together; set both or neither"
        for rule in self.families[:-1]:
            if rule.is_unconditional:
                yield f"families: the rule for {rule.family!r} matches every call; put it last, or add a condition"
        if self.clusters and self.families and self.families[-1].is_unconditional:
            yield (
                f"clusters is {self.clusters}, but the last rule of families matches every call; "
                "leave out the rule, or clusters"
            )
        if self.metrics and self.metrics[0].weight == 0:
            yield (
                f"metrics: the primary metric is the first, {self.metrics[0].name!r}, but its weight is 0; "
                "put a metric first that teaches the router"
            )

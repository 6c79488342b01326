"""The errors for clients whose call is not decided, or whose episode is not sealed."""

from collections.abc import Iterator
from contextlib import contextmanager

from upturn.dialects import RequestError
from upturn.errors import RoutingError
from upturn.loop.online.account import Left

_RETRY_SECONDS = 5
"""After which an agent may be free or in service again."""


@contextmanager
def refusals(left: Left | None) -> Iterator[None]:
    """Turns a decision that cannot be made into an error for the client; ``left``: None = there is no budget."""
    try:
        yield
    except RoutingError as exc:
        if exc.kind == "over_budget" and left is not None:
            raise RequestError(
                f"{left.text}; {exc}; use a cheaper model or a shorter prompt, or try again in "
                f"{left.wait_seconds:,} s",
                status=429,
                code="budget_exceeded",
                retry_after_seconds=left.wait_seconds,
            ) from exc
        if exc.kind == "unable":
            raise RequestError(str(exc), code="no_able_agent") from exc
        raise RequestError(  # not what operators wrote about agents; /v1/router/state shows it to them
            "no agent can take this call at the moment: all are suspended, at their load cap, or serve other "
            "tenants; try again, or name another model",
            status=503,
            code="no_agent",
            retry_after_seconds=_RETRY_SECONDS,
        ) from exc


def busy(episode: str, count: int) -> RequestError:
    """Returns the error for the seal of an episode of which ``count`` calls are being answered."""
    return RequestError(
        f"calls of episode {episode!r} are being answered ({count}); seal it when they have ended",
        status=409,
        code="episode_busy",
        retry_after_seconds=1,
    )

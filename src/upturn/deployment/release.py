"""The states of a release, and its traffic.

A release starts with a passed validation or an operator's override; its canary or an operator then changes its
state. Functions return a new release, which the caller stores; ``apply_traffic`` makes the registry route by it.
"""

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Literal, NamedTuple, Protocol

from upturn.arbiter import AgentRegistry
from upturn.config import CanarySettings
from upturn.deployment.validation import Validation
from upturn.errors import ReleaseError, UnknownNameError
from upturn.records import AgentVersion, Release, ReleaseState

ReleaseStatus = ReleaseState | Literal["held"]
OPEN_STATES: tuple[ReleaseState, ...] = ("canary", "watch")
"""States of a release that still takes evidence."""


class Override(NamedTuple):
    """An operator's decision regardless of the evidence. Both fields are recorded with the release."""

    who: str
    why: str

    def note(self, action: str) -> str:
        """Returns ``action by who: why``; raises ReleaseError if ``who`` or ``why`` is empty."""
        if not self.who.strip() or not self.why.strip():
            raise ReleaseError(f"{action} needs who did it and why, got who={self.who!r} why={self.why!r}")
        return f"{action} by {self.who.strip()}: {self.why.strip()}"


class Traffic(Protocol):
    """Controls which version serves a release's agent. Both methods are idempotent."""

    def set_canary(self, release: Release, share: float) -> None:
        """Lets the release's candidate serve ``share`` of its agent's tasks."""

    def set_incumbent(self, release: Release, version: str) -> None:
        """Ends the canary; ``version`` (incumbent or candidate of the release) serves all of the agent's tasks."""


class RegistryTraffic:
    """Controls traffic through the arbiter's registry; ``version_of`` returns an agent version by id."""

    def __init__(self, registry: AgentRegistry, version_of: Callable[[str], AgentVersion]) -> None:
        self._registry = registry
        self._version_of = version_of

    def set_canary(self, release: Release, share: float) -> None:
        """Starts the release's canary or changes its share; raises ReleaseError if another release has a canary."""
        if self._registry.served(release.agent).release == release.id:
            self._registry.set_weight(release.agent, share)
        else:
            self._registry.start_canary(release.id, self._version_of(release.candidate), share)

    def set_incumbent(self, release: Release, version: str) -> None:
        """Ends the release's canary in favour of ``version``; no-op if a later release serves the agent."""
        served = self._registry.served(release.agent)
        if served.release == release.id:
            if served.incumbent.id == version:
                self._registry.rollback(release.agent)
            else:
                self._registry.promote(release.agent)
        elif served.incumbent.id != version and served.incumbent.id in (release.incumbent, release.candidate):
            # After the state "watch" the candidate is already the incumbent. A later release's incumbent stays.
            self._registry.start_canary(release.id, self._version_of(version), 1.0)
            self._registry.promote(release.agent)


def release_id(incumbent: str, candidate: str, repeat: int = 0) -> str:
    """The id of a candidate's release over an incumbent; ``repeat`` counts earlier ones of the same pair."""
    text = "\n".join((incumbent, candidate, str(repeat)))
    return f"release-{hashlib.sha256(text.encode()).hexdigest()[:12]}"


class History(NamedTuple):
    """What an agent's earlier releases mean for the next one."""

    attempt: int = 1
    """Number of the next release among those since the agent's last promotion, from 1."""
    repeat: int = 0
    """Earlier releases of the same candidate over the same incumbent."""


FIRST = History()


def history_of(releases: Iterable[Release], incumbent: str, candidate: str, agent: str) -> History:
    """The history before the next release of ``candidate`` over ``incumbent``; ``releases`` are the oldest first.

    Releases that operators ended without the canary's verdict count as attempts too.
    """
    attempt, repeat = 1, 0
    for release in releases:
        if release.agent == agent:
            attempt = 1 if release.state in ("promoted", "watch") else attempt + 1
            repeat += (release.incumbent, release.candidate) == (incumbent, candidate)
    return History(attempt, repeat)


def incumbent_of(configured: str, releases: Iterable[Release]) -> str:
    """Returns the id of the serving version: the configured one, or what promotions in turn replaced it by.

    ``releases``: in the order of their last change. A version that the configuration names anew serves, whatever
    was promoted over other versions.
    """
    serving = configured
    for release in releases:
        if release.incumbent == serving and release.state in ("promoted", "watch"):
            serving = release.candidate
    return serving


def check_free(agent: str, releases: Iterable[Release]) -> None:
    """Raises ReleaseError if a release of the agent is open."""
    for release in releases:
        if release.agent == agent and release.state in OPEN_STATES:
            raise ReleaseError(
                f"agent {agent!r} already has release {release.id!r}, which is {release_status(release)!r}; "
                "promote it or roll it back first"
            )


def start(
    incumbent: AgentVersion,
    candidate: AgentVersion,
    settings: CanarySettings,
    basis: Validation | Override,
    *,
    history: History = FIRST,
) -> Release:
    """Returns a release with its canary at the first stage.

    Raises ReleaseError for a validation that did not pass, an override without who or why, versions of two agents,
    or a candidate that is the incumbent.
    """
    if candidate.agent != incumbent.agent:
        raise ReleaseError(
            f"candidate {candidate.id!r} and incumbent {incumbent.id!r} are versions of two agents; "
            "a release replaces a version of one agent"
        )
    if candidate.id == incumbent.id:
        raise ReleaseError(f"candidate {candidate.id!r} is the incumbent itself; give the new version another name")
    if isinstance(basis, Override):
        validation, reason = "skipped", basis.note("validation skipped")
    elif basis.verdict == "pass":
        validation, reason = basis.summary, ""
    else:
        raise ReleaseError(
            f"candidate {candidate.id!r} did not pass validation ({basis.summary}); "
            "only a start with --skip-validation (skip_validation over HTTP), who and why begins its canary"
        )
    return Release(
        id=release_id(incumbent.id, candidate.id, history.repeat),
        agent=incumbent.agent,
        incumbent=incumbent.id,
        candidate=candidate.id,
        stages=settings.stages,
        state="canary",
        stage=0,
        validation=validation,
        is_validation_skipped=isinstance(basis, Override),
        reason=reason,
        attempt=history.attempt,
    )


def promote(release: Release, override: Override) -> Release:
    """Returns the release promoted by an operator; raises ReleaseError if it is decided."""
    if release.state != "canary":
        raise _final_error(release, "promote")
    release = _add_note(release, override, "promoted")
    return replace(release, state="promoted", stage=len(release.stages) - 1, is_held=False)


def rollback(release: Release, override: Override) -> Release:
    """Returns the release rolled back by an operator; raises ReleaseError if it is decided."""
    if release.state not in ("canary", "watch"):
        raise _final_error(release, "roll back")
    return replace(_add_note(release, override, "rolled back"), state="rolled_back", is_held=False)


def hold(release: Release, override: Override) -> Release:
    """Returns the release held at its stage until ``resume``; raises ReleaseError if it is held or decided."""
    if release.state != "canary" or release.is_held:
        raise ReleaseError(
            f"only a running canary can be held; release {release.id!r} is {release_status(release)!r}"
        )
    return replace(_add_note(release, override, "held"), is_held=True)


def resume(release: Release, override: Override) -> Release:
    """Returns the held release free to advance again; raises ReleaseError if it is not held."""
    if not release.is_held:
        raise ReleaseError(f"release {release.id!r} is not held; it is {release_status(release)!r}")
    return replace(_add_note(release, override, "resumed"), is_held=False)


ACTS: Mapping[str, Callable[[Release, Override], Release]] = {
    "promote": promote,
    "hold": hold,
    "resume": resume,
    "rollback": rollback,
}
"""What an operator can do to a release, by name."""


def find_release(releases: Sequence[Release], release_id: str) -> Release:
    """Returns the release with this id; raises UnknownNameError with the known ids."""
    for release in releases:
        if release.id == release_id:
            return release
    known = ", ".join(release.id for release in releases) or "none"
    raise UnknownNameError(f"unknown release {release_id!r}; in this pool: {known}")


def release_status(release: Release) -> ReleaseStatus:
    """Returns the release's state; ``held`` while an operator holds its canary."""
    return "held" if release.is_held else release.state


def candidate_share(release: Release) -> float:
    """Returns the candidate's share of its agent's tasks in the release's current state."""
    if release.state == "canary":
        return release.stages[release.stage]
    return 0.0 if release.state == "rolled_back" else 1.0


def apply_traffic(release: Release, traffic: Traffic) -> None:
    """Sets the traffic by the release's state; idempotent."""
    if release.state == "canary":
        traffic.set_canary(release, candidate_share(release))
    else:
        traffic.set_incumbent(release, release.incumbent if release.state == "rolled_back" else release.candidate)


def _final_error(release: Release, action: str) -> ReleaseError:
    return ReleaseError(
        f"cannot {action} release {release.id!r}: it is {release.state!r} and a verdict is final; "
        "start a new release"
    )


def _add_note(release: Release, override: Override, action: str) -> Release:
    note = override.note(action)
    return replace(release, reason=f"{release.reason}; {note}" if release.reason else note)

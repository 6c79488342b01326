"""``upturn release``: look at releases in a pool, begin one, or decide one by hand.

Every change is one stored state of the release; the pool keeps the earlier ones. While a loop or gateway has the
pool open for writing these changes are refused; it follows them from its next start on.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from upturn.cli.output import emit
from upturn.cli.release_simulate import simulate
from upturn.config import CanarySettings
from upturn.deployment import Override, Validation, candidate_share, release_status, wilson_interval
from upturn.deployment import release as lifecycle
from upturn.errors import RecordError, ReleaseError, UnknownNameError
from upturn.pool import Pool
from upturn.records import AgentVersion, JsonValue, Release, Result, from_json

release_app = typer.Typer(no_args_is_help=True, help="Releases: list, start, status, promote, hold, rollback.")

PoolPath = Annotated[Path, typer.Option("--pool", help="The pool's file.")]
Who = Annotated[str, typer.Option("--who", help="Who decides; recorded with the release.")]
Why = Annotated[str, typer.Option("--why", help="The reason; recorded with the release.")]
ReleaseId = Annotated[str, typer.Argument(help="The release's id, as `upturn release list` shows it.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


@release_app.command("list")
def list_releases(pool: PoolPath, as_json: AsJson = False) -> None:
    """Every release in the pool with its present state, oldest first."""
    with Pool.open(pool, read_only=True) as opened:
        releases = opened.states(Release)
    emit("release list", [], {"releases": [_line(release) for release in releases]}, as_json=as_json)


@release_app.command("status")
def status(release_id: ReleaseId, pool: PoolPath, as_json: AsJson = False) -> None:
    """One release: success of both arms, the evidence so far and why it stands where it stands."""
    with Pool.open(pool, read_only=True) as opened:
        release = _find(opened.states(Release), release_id)
    _show("release status", release, as_json)


@release_app.command("start")
def start(  # noqa: PLR0913 - a command's parameters are its options
    incumbent: Annotated[str, typer.Argument(help="The serving version, agent@version.")],
    candidate: Annotated[str, typer.Argument(help="The new version, agent@version; both are stored in the pool.")],
    *,
    pool: PoolPath,
    validation: Annotated[
        Path | None, typer.Option(help="File with a passed validation, as upturn.records.to_json writes it.")
    ] = None,
    skip_validation: Annotated[
        bool, typer.Option("--skip-validation", help="Start without a passed validation; needs --who and --why.")
    ] = False,
    who: Who = "",
    why: Why = "",
    as_json: AsJson = False,
) -> None:
    """Begin a canary for a candidate that passed validation, or by an audited override."""
    ground = _ground(validation, skip_validation, Override(who, why))
    Pool.open(pool, read_only=True).close()
    with Pool.open(pool) as opened:
        versions = {version.id: version for version in opened.agent_versions()}
        releases = opened.states(Release)
        pair = _version(versions, incumbent), _version(versions, candidate)
        open_ones = [
            known for known in releases if known.agent == pair[0].agent and known.state in ("canary", "watch")
        ]
        if open_ones:
            raise ReleaseError(
                f"agent {pair[0].agent!r} already has release {open_ones[0].id!r}, which is "
                f"{release_status(open_ones[0])!r}; promote it or roll it back first"
            )
        attempt = sum(known.incumbent == incumbent and known.candidate == candidate for known in releases)
        release = lifecycle.start(*pair, CanarySettings(), ground, earlier_releases=attempt)
        opened.append(release)
    _show("release start", release, as_json)


@release_app.command("promote")
def promote(release_id: ReleaseId, *, pool: PoolPath, who: Who, why: Why, as_json: AsJson = False) -> None:
    """Promote a canary's candidate by hand."""
    _show("release promote", _move(pool, release_id, lifecycle.promote, Override(who, why)), as_json)


@release_app.command("hold")
def hold(release_id: ReleaseId, *, pool: PoolPath, who: Who, why: Why, as_json: AsJson = False) -> None:
    """Keep a canary at its stage; it goes on gathering evidence and may still roll back by itself."""
    _show("release hold", _move(pool, release_id, lifecycle.hold, Override(who, why)), as_json)


@release_app.command("resume")
def resume(release_id: ReleaseId, *, pool: PoolPath, who: Who, why: Why, as_json: AsJson = False) -> None:
    """Leave a held canary to its evidence again."""
    _show("release resume", _move(pool, release_id, lifecycle.resume, Override(who, why)), as_json)


@release_app.command("rollback")
def rollback(release_id: ReleaseId, *, pool: PoolPath, who: Who, why: Why, as_json: AsJson = False) -> None:
    """Take a candidate out of service by hand, from its canary or its watch."""
    _show("release rollback", _move(pool, release_id, lifecycle.rollback, Override(who, why)), as_json)


def _move(pool: Path, release_id: str, act: Callable[[Release, Override], Release], override: Override) -> Release:
    """The release after ``act``, stored."""
    # A pool is made by work, not by a mistyped path: opening for reading first refuses one that is not there.
    Pool.open(pool, read_only=True).close()
    with Pool.open(pool) as opened:
        moved = act(_find(opened.states(Release), release_id), override)
        opened.append(moved)
    return moved


def _ground(validation: Path | None, skip_validation: bool, override: Override) -> Validation | Override:
    if (validation is None) == (not skip_validation):
        raise ReleaseError(
            "a release starts on --validation FILE or on --skip-validation; give exactly one of them"
        )
    if validation is None:
        return override
    if override.who or override.why:
        raise ReleaseError("--who and --why belong to --skip-validation; a passed validation needs neither")
    if not validation.is_file():
        raise ReleaseError(
            f"there is no validation at {str(validation)!r}; name the file that the validation wrote"
        )
    try:
        return from_json(Validation, validation.read_bytes())
    except RecordError as exc:
        raise ReleaseError(
            f"{str(validation)!r} holds no validation: {exc}; name the file that the validation wrote"
        ) from exc


def _version(versions: dict[str, AgentVersion], wanted: str) -> AgentVersion:
    if wanted not in versions:
        known = ", ".join(versions) or "none"
        raise UnknownNameError(f"agent version {wanted!r} is not in the pool; known: {known}")
    return versions[wanted]


def _find(releases: list[Release], wanted: str) -> Release:
    for release in releases:
        if release.id == wanted:
            return release
    known = ", ".join(release.id for release in releases) or "none"
    raise UnknownNameError(f"unknown release {wanted!r}; in this pool: {known}")


def _line(release: Release) -> dict[str, JsonValue]:
    return {
        "id": release.id,
        "incumbent": release.incumbent,
        "candidate": release.candidate,
        "state": release_status(release),
        "share": candidate_share(release),
    }


def _show(command: str, release: Release, as_json: bool) -> None:
    details: dict[str, object] = {
        "release": _line(release),
        "validation": release.validation,
        "is_validation_skipped": release.is_validation_skipped,
        "operators": release.reason,
        "last_evidence": release.evidence[-1].reason if release.evidence else "none yet",
    }
    emit(command, _figures(release), details, as_json=as_json)


def _figures(release: Release) -> list[Result]:
    """Success by arm and the evidence, where there is any."""
    if not release.evidence:
        return []
    last = release.evidence[-1]
    arms = (
        ("candidate_success", last.candidate_successes, last.candidate_tasks),
        ("control_success", last.control_successes, last.control_tasks),
    )
    rates = ((name, wilson_interval(successes, tasks)) for name, successes, tasks in arms if tasks)
    figures = [Result(name, rate.mean, "share", rate.low, rate.high, rate.n) for name, rate in rates]
    logs = (
        ("log_e_better", last.log_e_better),
        ("log_e_worse", last.log_e_worse),
        ("log_e_unsafe", last.log_e_unsafe),
        ("log_e_mismatch", last.log_e_mismatch),
    )
    return [
        *figures,
        *(Result(name, value, "nats") for name, value in logs),
        Result("missing_evaluations", float(last.missing), "tasks"),
    ]


release_app.command("simulate")(simulate)

"""What to install or to allow where bubblewrap does not start: its message and the host's settings, in words."""

from dataclasses import dataclass
from pathlib import Path

_APPARMOR = Path("/proc/sys/kernel/apparmor_restrict_unprivileged_userns")
_DEBIAN = Path("/proc/sys/kernel/unprivileged_userns_clone")
_MOST = Path("/proc/sys/user/max_user_namespaces")
_CONTAINERS = (Path("/.dockerenv"), Path("/run/.containerenv"))
_FORBIDDEN = ("namespace", "uid map", "permi", "Permi", "mount proc")
"""Words of bubblewrap's messages where the host does not let it do its work."""
_PAGE = "docs/sandbox.md has the steps"


@dataclass(frozen=True, slots=True)
class Host:
    """What may keep bubblewrap from making namespaces."""

    is_restricted_by_apparmor: bool
    """Ubuntu 24.04's default."""
    has_user_namespaces: bool
    is_container: bool
    """Docker or Podman."""


def this_host() -> Host:
    """Read from ``/proc/sys`` and the files that containers have."""
    has_user_namespaces = _setting(_DEBIAN) != "0" and _setting(_MOST) != "0"
    return Host(_setting(_APPARMOR) == "1", has_user_namespaces, any(path.exists() for path in _CONTAINERS))


def cure(message: str, host: Host) -> str:
    """A sentence on what to do about bubblewrap's ``message``."""
    if "Unknown option" in message:
        return "this bubblewrap is too old: install 0.8 or newer"
    if "Can't find source path" in message:
        return (
            "user 65534, as whom root's sandboxes run, may not enter a folder of this path: run Upturn as an "
            "ordinary user, move what it names, or give root the right to mount (CAP_SYS_ADMIN)"
        )
    if not any(word in message for word in _FORBIDDEN):
        return _PAGE
    if not host.has_user_namespaces:
        return (
            "the kernel's user namespaces are turned off: sysctl -w user.max_user_namespaces=10000, and where it "
            "exists kernel.unprivileged_userns_clone=1"
        )
    if host.is_container:
        return (
            "the container's profile forbids namespaces: start it with --security-opt seccomp=unconfined "
            f"--security-opt apparmor=unconfined --security-opt systempaths=unconfined; {_PAGE}"
        )
    if host.is_restricted_by_apparmor:
        return (
            "AppArmor keeps programs from making user namespaces: allow it for bwrap with a profile, or for all "
            f"with sysctl -w kernel.apparmor_restrict_unprivileged_userns=0; {_PAGE}"
        )
    return _PAGE


def _setting(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii").strip()
    except OSError:
        return ""

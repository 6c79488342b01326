"""One writing process for each pool: a lock file beside it that the system releases when the process ends.

The lock is ``flock`` on ``<pool>.lock``, which also holds the process id for the message. The file stays where
it is: removing it would let two processes lock two different files of that name. Not covered: network file
systems without ``flock``, and a process that forks while it writes (the child would share the lock).
"""

import fcntl
import os
from contextlib import suppress
from pathlib import Path

from upturn.errors import StoreBusyError, StoreError


class WriterLock:
    """Held from construction until ``release``, or until the process ends however it ends."""

    def __init__(self, pool_path: Path) -> None:
        """Raises StoreBusyError naming the path and process that holds it, StoreError when no lock can be made."""
        self.path = pool_path.with_name(pool_path.name + ".lock")
        try:
            self._descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as exc:
            raise StoreError(
                f"the pool {str(pool_path)!r} cannot be locked for writing: {exc.strerror}; "
                "choose a folder that exists and can be written, or open it read-only"
            ) from exc
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as exc:
            holder = os.pread(self._descriptor, 32, 0).decode("ascii", "replace").strip() or "unknown"
            os.close(self._descriptor)
            raise StoreBusyError(
                f"the pool {str(pool_path)!r} is being written by process {holder}; "
                "wait until it ends, stop it, or open the pool read-only"
            ) from exc
        with suppress(OSError):  # the id is for people; a full disk is reported where it matters
            os.ftruncate(self._descriptor, 0)
            os.pwrite(self._descriptor, f"{os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        """Let the next writer in; called once."""
        os.close(self._descriptor)

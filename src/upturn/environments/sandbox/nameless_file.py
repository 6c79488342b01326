"""A file without a name, for a process that gets its descriptor."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def nameless_file(content: bytes) -> Iterator[int]:
    """The descriptor of a file in memory, at its beginning; nobody can change it any more."""
    descriptor = os.memfd_create("upturn", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_WRITE | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK)
        file.seek(0)
        yield descriptor

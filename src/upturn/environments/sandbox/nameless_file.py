"""A file without a name, for a process that gets its descriptor."""

import os
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def nameless_file(content: bytes) -> Iterator[int]:
    """The descriptor of a file in memory, to be read from its beginning."""
    descriptor = os.memfd_create("upturn")
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        file.seek(0)
        yield descriptor

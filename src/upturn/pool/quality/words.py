"""The words of texts, normalised, and hashes of them: what duplicates and contamination compare."""

import hashlib
import re
from collections.abc import Iterator, Sequence
from zlib import crc32

from upturn.records import Task, Trajectory

_WORD = re.compile(r"\w+")


def words_of(text: str) -> list[str]:
    """Returns the words in lower case, without punctuation."""
    return _WORD.findall(text.lower())


def digest_of(words: Sequence[str]) -> bytes:
    """Returns 16 bytes that differ for other words."""
    return hashlib.blake2b("\0".join(words).encode("utf-8", "surrogatepass"), digest_size=16).digest()


def shingles(words: Sequence[str], length: int) -> Iterator[int]:
    """Yields a 32-bit hash of each run of ``length`` words; of all words where there are fewer."""
    encoded = [word.encode("utf-8", "surrogatepass") for word in words]
    for start in range(max(1, len(encoded) - length + 1)):
        yield crc32(b" ".join(encoded[start : start + length]))


def work_words(task: Task, trajectory: Trajectory) -> list[str]:
    """Returns the words of the instruction, and of all that the agent wrote and saw."""
    parts = [task.instruction]
    for turn in trajectory.turns:
        parts += (turn.observation.text, turn.text)
    parts.append(trajectory.final_observation.text)
    return words_of("\n".join(parts))

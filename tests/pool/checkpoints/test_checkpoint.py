"""Signed checkpoints: their form, their key, and what they find that the database alone cannot show."""

import base64
import hashlib
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from upturn.config import CheckpointConfig
from upturn.errors import StoreError
from upturn.pool import Location, Pool
from upturn.pool.audit import Frontier, audit_problems
from upturn.pool.checkpoints import (
    Checkpointer,
    checkpoint_problems,
    checkpointed_pool,
    read_checkpoints,
    read_public_key,
    write_checkpoint,
)
from upturn.pool.checkpoints.note import PublicKey, Signer, signed_body
from upturn.records import Task


def fill(location: Location, count: int, *, goal: str = "do", name: str = "t") -> None:
    with Pool.open(location, clock=lambda: 1.0) as pool:
        pool.append(*(Task(f"{name}{number}", goal, "mail", "office") for number in range(count)))


def problems(location: Location, folder: Path) -> list[str]:
    checkpoints = read_checkpoints(folder, read_public_key(folder / "key.pub"))
    tree = Frontier()
    roots = dict.fromkeys((one.tree.size for one in checkpoints if one.tree), b"")
    with Pool.open(location, read_only=True) as pool, pool.engine.connect() as connection:
        found = list(audit_problems(connection, tree, roots))
    return [str(problem) for problem in (*found, *checkpoint_problems(checkpoints, roots, tree.size))]


def test_a_key_has_the_form_and_the_id_of_a_signed_note() -> None:
    """The example key of golang.org/x/mod/sumdb/note, by its published verifier key."""
    text = "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW"
    _, _, encoded = text.split("+", 2)
    key = PublicKey("PeterNeumann", base64.b64decode(encoded)[1:])
    assert str(key) == text
    body = "If you think cryptography is the answer to your problem,\nthen you don't know what your problem is.\n"
    signature = "x08go/ZJkuBS9UG/SffcvIAQxVBtiFupLLr8pAcElZInNIuGUgYN1FFYC2pZSNXgKvqfqdngotpRZb6KE6RyyBwJnAM="
    assert signed_body(f"{body}\n— PeterNeumann {signature}\n", key) == body
    assert signed_body(f"{body} \n— PeterNeumann {signature}\n", key) is None


def test_a_checkpoint_is_a_signed_note_of_origin_size_and_root(location: Location, tmp_path: Path) -> None:
    fill(location, 5)
    folder = tmp_path / "audit"
    tree = write_checkpoint(location, folder)
    assert tree.size == 5
    key = read_public_key(folder / "key.pub")
    note = (folder / "checkpoints" / "00000000000000000005").read_text()
    assert note.startswith(f"{key.name}\n5\n{base64.b64encode(tree.root).decode()}\n\n— {key.name} ")
    assert key.id == hashlib.sha256(key.name.encode() + b"\n\x01" + key.key).digest()[:4]
    assert stat.S_IMODE((folder / "key").stat().st_mode) == 0o600
    assert problems(location, folder) == []
    fill(location, 8)
    assert write_checkpoint(location, folder).size == 8
    assert problems(location, folder) == []


def test_a_pool_that_was_written_anew_differs_from_its_checkpoints(tmp_path: Path) -> None:
    """Its records, digests, entries and tree agree with each other."""
    folder = tmp_path / "audit"
    fill(tmp_path / "pool.db", 3)
    write_checkpoint(tmp_path / "pool.db", folder)
    for goal, name in (("do", "t"), ("forged", "u")):
        fill(tmp_path / "pool.db", 3, goal=goal, name=name)
    write_checkpoint(tmp_path / "pool.db", folder)
    fill(tmp_path / "forged.db", 3)
    fill(tmp_path / "forged.db", 3, goal="other", name="u")
    assert problems(tmp_path / "forged.db", folder) == [
        "checkpoint '6' differs from the log: one of the entries 3 to 5 was changed with its hash"
    ]
    fill(tmp_path / "cut.db", 3)
    assert problems(tmp_path / "cut.db", folder) == [
        "checkpoint '6' has more entries than the log, 3: its end was cut off"
    ]


@pytest.mark.parametrize(
    "change",
    [
        lambda note: note.replace("\n3\n", "\n2\n"),
        lambda note: note[:40],
        lambda note: note[:0],
        lambda note: note.replace("— upturn", "- upturn"),
    ],
)
def test_a_changed_checkpoint_is_named(tmp_path: Path, change: Callable[[str], str]) -> None:
    folder = tmp_path / "audit"
    fill(tmp_path / "pool.db", 3)
    write_checkpoint(tmp_path / "pool.db", folder)
    path = folder / "checkpoints" / "00000000000000000003"
    path.write_text(change(path.read_text()))
    assert problems(tmp_path / "pool.db", folder) == [
        f"checkpoint '{path.name}' is not signed by the key, or was changed"
    ]


def test_a_checkpoint_of_another_key_is_no_evidence(tmp_path: Path) -> None:
    folder = tmp_path / "audit"
    fill(tmp_path / "pool.db", 3)
    write_checkpoint(tmp_path / "pool.db", folder)
    key = read_public_key(folder / "key.pub")
    private = Ed25519PrivateKey.generate()
    forged = Signer(PublicKey(key.name, private.public_key().public_bytes_raw()), private)
    path = folder / "checkpoints" / "00000000000000000003"
    path.write_text(forged.sign(f"{key.name}\n3\n{base64.b64encode(bytes(32)).decode()}\n"))
    assert "is not signed by the key" in problems(tmp_path / "pool.db", folder)[0]


def test_a_checkpoint_never_replaces_another_of_its_size(tmp_path: Path) -> None:
    folder = tmp_path / "audit"
    fill(tmp_path / "pool.db", 3)
    write_checkpoint(tmp_path / "pool.db", folder)
    fill(tmp_path / "forged.db", 3, goal="forged")
    write_checkpoint(tmp_path / "forged.db", folder)
    assert problems(tmp_path / "pool.db", folder) == []


def test_keys_that_cannot_be_used_are_refused_with_their_file(tmp_path: Path) -> None:
    fill(tmp_path / "pool.db", 1)
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match=r"no key can be made in '.*file': .*; name another folder"):
        write_checkpoint(tmp_path / "pool.db", tmp_path / "file")
    with pytest.raises(StoreError, match=r"'.*key.pub' cannot be read"):
        read_public_key(tmp_path / "key.pub")
    (tmp_path / "key").write_text("PRIVATE+KEY+a+b+c")
    with pytest.raises(StoreError, match="is no Ed25519 key in the form of a signed note; restore the file"):
        write_checkpoint(tmp_path / "pool.db", tmp_path)


def test_checkpoints_are_due_after_entries_or_seconds_and_written_at_the_end(
    location: Location, tmp_path: Path
) -> None:
    folder = tmp_path / "audit"
    settings = CheckpointConfig(folder=str(folder), entries=10, seconds=1e6)
    with Checkpointer(location, settings) as checkpointer, Pool.open(location) as pool:
        checkpointer.start()
        pool.append(Task("t", "do", "mail", "office"))
        assert not checkpointer.is_due(0, 1e9)
        assert not checkpointer.is_due(9, 0.0)
        assert checkpointer.is_due(10, 0.0)
        assert checkpointer.is_due(1, 1e9)
    assert [path.name for path in (folder / "checkpoints").iterdir()] == ["00000000000000000001"]


def test_a_pool_has_checkpoints_if_a_folder_is_named(location: Location, tmp_path: Path) -> None:
    for settings in (CheckpointConfig(), CheckpointConfig(folder=str(tmp_path / "audit"))):
        with checkpointed_pool(location, settings) as pool:
            pool.append(Task("t", "do", "mail", "office"))
    assert [path.name for path in (tmp_path / "audit" / "checkpoints").iterdir()] == ["00000000000000000001"]

"""Signed notes (https://c2sp.org/signed-note) with Ed25519, and their keys in the forms of that specification."""

import base64
import os
import secrets
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from upturn.errors import StoreError

KEY_FILE = "key"
"""The secret key, readable by its owner alone."""
PUBLIC_KEY_FILE = "key.pub"
"""The public key, to be kept where the pool's administrator cannot change it."""

_ED25519 = b"\x01"
_KEY_BYTES = 32
_SECRET = "PRIVATE+KEY+"


class PublicKey(NamedTuple):
    """A key that verifies."""

    name: str
    """Also the first line of the checkpoints that it signs."""
    key: bytes

    @property
    def id(self) -> bytes:
        """Four bytes that name the key in a signature."""
        return sha256(self.name.encode() + b"\n" + _ED25519 + self.key).digest()[:4]

    def __str__(self) -> str:
        """Returns the form of the specification (vkey)."""
        return f"{self.name}+{self.id.hex()}+{base64.b64encode(_ED25519 + self.key).decode()}"


class Signer(NamedTuple):
    """A key that signs."""

    public: PublicKey
    private: Ed25519PrivateKey

    def sign(self, body: str) -> str:
        """Returns the body, which ends with a newline, as a note."""
        signature = base64.b64encode(self.public.id + self.private.sign(body.encode())).decode()
        return f"{body}\n— {self.public.name} {signature}\n"


def signed_body(note: str, key: PublicKey) -> str | None:
    """Returns the text of a note; None = the key has not signed it."""
    body, _, signatures = note.rpartition("\n\n")
    for line in signatures.splitlines():
        dash, _, rest = line.partition(" ")
        name, _, encoded = rest.partition(" ")
        if dash != "—" or name != key.name:
            continue
        try:
            raw = base64.b64decode(encoded, validate=True)
            if raw[:4] == key.id:
                Ed25519PublicKey.from_public_bytes(key.key).verify(raw[4:], (body + "\n").encode())
                return body + "\n"
        except (ValueError, InvalidSignature):
            continue
    return None


def open_signer(folder: Path) -> Signer:
    """Returns the folder's key; makes both if there are none. Raises StoreError if that is not possible."""
    path = folder / KEY_FILE
    if not path.exists():
        try:
            _make_key(folder)
        except OSError as exc:
            raise StoreError(f"no key can be made in {str(folder)!r}: {exc.strerror}; name another folder") from exc
    name, _, seed = _parts(_read(path).removeprefix(_SECRET), path)
    private = Ed25519PrivateKey.from_private_bytes(seed)
    return Signer(PublicKey(name, private.public_key().public_bytes_raw()), private)


def read_public_key(path: Path) -> PublicKey:
    """Returns the key in a file (``key.pub``); raises StoreError for any other file."""
    text = _read(path)
    name, _, raw = _parts(text, path)
    return PublicKey(name, raw)


def _read(path: Path) -> str:
    try:
        return path.read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError) as exc:
        reason = exc.strerror if isinstance(exc, OSError) else "it is no text"
        raise StoreError(
            f"the key {str(path)!r} cannot be read: {reason}; `upturn audit checkpoint` makes one"
        ) from exc


def _parts(text: str, path: Path) -> tuple[str, str, bytes]:
    """Returns name, id and bytes of a key in the form ``name+id+base64``."""
    name, _, rest = text.partition("+")
    identifier, _, encoded = rest.partition("+")
    try:
        raw = base64.b64decode(encoded, validate=True)
    except ValueError:
        raw = b""
    if not name or len(raw) != _KEY_BYTES + 1 or raw[:1] != _ED25519:
        raise StoreError(f"{str(path)!r} is no Ed25519 key in the form of a signed note; restore the file")
    return name, identifier, raw[1:]


def _make_key(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    private = Ed25519PrivateKey.generate()
    public = PublicKey(f"upturn/{secrets.token_hex(4)}", private.public_key().public_bytes_raw())
    encoded = base64.b64encode(_ED25519 + private.private_bytes_raw()).decode()
    write_new(folder / PUBLIC_KEY_FILE, f"{public}\n", mode=0o644)
    write_new(folder / KEY_FILE, f"{_SECRET}{public.name}+{public.id.hex()}+{encoded}\n", mode=0o600)


def write_new(path: Path, text: str, *, mode: int) -> None:
    """Writes a whole file or nothing."""
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(descriptor)
    part.replace(path)

"""A pool's place: what is accepted, and that its password is never shown."""

from pathlib import Path

import pytest

from upturn.config import PoolConfig
from upturn.errors import ConfigError, StoreError
from upturn.pool import Pool, PoolUrl, location_of

SECRET = "hunter2-ä"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (f"postgresql://ann:{SECRET}@db.corp:5433/evidence", "postgresql://ann@db.corp:5433/evidence"),
        ("postgres://db.corp/evidence", "postgresql://db.corp/evidence"),
        (f"postgresql://db/evidence?password={SECRET}&sslmode=require", "postgresql://db/evidence?sslmode=require"),
        (f"postgresql://db/evidence?sslpassword={SECRET}", "postgresql://db/evidence"),
    ],
)
def test_url_is_shown_without_its_password(text: str, shown: str) -> None:
    place = location_of(text)
    assert str(place) == shown
    assert SECRET not in repr(place)
    assert isinstance(place, PoolUrl)
    assert place.url.drivername == "postgresql+psycopg"


def test_text_without_a_scheme_is_a_file(tmp_path: Path) -> None:
    assert location_of(str(tmp_path / "a:b.db")) == tmp_path / "a:b.db"
    assert location_of(tmp_path) == tmp_path


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"mysql://ann:{SECRET}@db/evidence", r"'mysql://…' names no pool; name a file, or postgresql://"),
        (f"postgresql://ann:{SECRET}@db", r"'postgresql://ann@db' names no database; add its name"),
        (f"postgresql://ann:{SECRET}@db:port/evidence", "cannot be read; write it as postgresql://user@host"),
    ],
)
def test_wrong_urls_are_refused_without_their_password(text: str, message: str) -> None:
    with pytest.raises(StoreError, match=message) as caught:
        Pool.open(text)
    assert SECRET not in str(caught.value)
    assert caught.value.__cause__ is None


def test_url_that_was_made_a_path_is_refused() -> None:
    with pytest.raises(StoreError, match="passed as a path, which loses a slash"):
        Pool.open(Path("postgresql://db/evidence"))


def test_server_that_does_not_answer_is_named_without_the_password(tmp_path: Path) -> None:
    for read_only in (True, False):
        with pytest.raises(StoreError, match="check that the server runs and can be reached") as caught:
            Pool.open(f"postgresql://ann:{SECRET}@/evidence?host={tmp_path}", read_only=read_only)
        assert SECRET not in str(caught.value)


@pytest.mark.parametrize("url", [f"postgresql://ann:{SECRET}@db/e", f"postgresql://db/e?password={SECRET}"])
def test_configuration_takes_no_password(url: str) -> None:
    """It is hashed, and saved with each run."""
    with pytest.raises(ConfigError, match="must have no password; put it into the variable PGPASSWORD") as caught:
        PoolConfig(path=url)
    assert SECRET not in str(caught.value)


def test_configuration_takes_files_and_urls_of_postgresql() -> None:
    assert PoolConfig(path="postgresql://ann@db/e").path == "postgresql://ann@db/e"
    with pytest.raises(ConfigError, match="must be a file or start with postgresql://, got 'mysql://…'"):
        PoolConfig(path="mysql://db/e")

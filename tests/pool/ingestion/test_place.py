"""Equal conversations: parts of a file are the whole file, and nothing is added twice."""

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import Phase, assume, given, settings
from hypothesis import strategies as st

from upturn.errors import StoreError
from upturn.pool import Pool
from upturn.pool.ingestion import IngestOptions, importer, ingest
from upturn.pool.ingestion.importer import IngestReport


def import_words(pool: Pool, folder: Path, words: Sequence[object], name: str = "a") -> IngestReport:
    """Imports a file with one conversation for each word; None = a line that cannot be used."""
    lines = [
        {"messages": [{"role": "user", "content": "say"}, {"role": "assistant", "content": str(word)}]}
        if word is not None
        else {}
        for word in words
    ]
    path = folder / f"{name}.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return ingest(pool, path, IngestOptions("chat"))


def stored(pool: Pool) -> Counter[str]:
    return Counter(trajectory.turns[-1].text for trajectory in pool.trajectories(tenant="default"))


WORDS = st.lists(st.sampled_from("pqr"), min_size=1, max_size=2).map(tuple)


@settings(max_examples=8, phases=[Phase.explicit, Phase.generate])
@given(st.lists(WORDS, min_size=2, max_size=9), st.data(), st.sampled_from([1, 2, 200]))
def test_parts_are_the_whole_and_overlaps_are_added_once(
    runs: list[tuple[str, ...]], choices: st.DataObject, page: int
) -> None:
    """Words without a number repeat all over the file; the numbered ones between them tell its places apart."""
    whole: list[str] = [word for number, run in enumerate(runs) for word in (f"{number}", *run)]
    cut = choices.draw(st.integers(1, len(whole) - 1))
    start = choices.draw(st.integers(0, len(whole)))
    end = choices.draw(st.integers(start, len(whole)))
    parts = [whole[:cut], whole[cut:]]
    assume(all(set(part) - {*"pqr"} for part in parts))
    # A part that begins or ends with two words may do so like another one, which is not decidable.
    assume(all(set(edge) - {*"pqr"} for part in parts for edge in (part[:2], part[-2:])))
    if choices.draw(st.booleans()):
        parts.reverse()
    with (
        pytest.MonkeyPatch.context() as patched,
        TemporaryDirectory() as folder,
        Pool.open(Path(folder) / "pool.db") as pool,
    ):
        patched.setattr(importer, "_LINES_PER_PAGE", page)
        for part in parts:
            import_words(pool, Path(folder), part)
        assert stored(pool) == Counter(whole)
        window = whole[start:end]
        for again in (whole, *parts, whole[::-1], *([window] if len(set(window) - {*"pqr"}) > 1 else [])):
            assert import_words(pool, Path(folder), again).added == 0
        assert import_words(pool, Path(folder), [*whole, "p", "new"]).added == 2


def test_file_that_grew_or_was_repaired_adds_what_is_new(pool: Pool, tmp_path: Path) -> None:
    import_words(pool, tmp_path, ["a", "b", None, "c", "a", "c", "d"])
    assert import_words(pool, tmp_path, ["a", "b", None, "c", "a", "c", "d", "a", "a"]).added == 2
    repaired = import_words(pool, tmp_path, "abacacdaa")
    assert (repaired.added, repaired.known) == (1, 8)


def test_windows_of_two_conversations_overlap(pool: Pool, tmp_path: Path) -> None:
    import_words(pool, tmp_path, "abcd")
    assert (import_words(pool, tmp_path, "cdef").added, sum(stored(pool).values())) == (2, 6)


def test_equal_conversations_on_both_sides_of_a_cut_are_further_attempts(pool: Pool, tmp_path: Path) -> None:
    for part in ("acc", "ccb", "accccb"):
        import_words(pool, tmp_path, part)
    assert stored(pool) == {"a": 1, "c": 4, "b": 1}


def test_interrupted_import_goes_on_after_its_last_page(
    pool: Pool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importer, "_LINES_PER_PAGE", 3)
    words = [*"ppqpp", 1, *"qppr", 2, *"pp"]
    submit, calls = pool.submit, 0

    def fails_later(*records: object, **options: object) -> object:
        nonlocal calls
        calls += 1
        if calls == 3:
            raise StoreError("the disk is full")
        return submit(*records, **options)  # type: ignore[arg-type]

    with monkeypatch.context() as patched:
        patched.setattr(pool, "submit", fails_later)
        with pytest.raises(StoreError, match="disk is full"):
            import_words(pool, tmp_path, words)
    assert sum(stored(pool).values()) == 6
    report = import_words(pool, tmp_path, words)
    assert (report.lines, report.added, report.known, report.is_repeated) == (13, 7, 6, False)
    assert stored(pool) == Counter(map(str, words))
    assert import_words(pool, tmp_path, words).is_repeated


def test_conversations_with_an_id_are_identified_by_it(pool: Pool, tmp_path: Path) -> None:
    def line(identity: str, answer: str) -> str:
        messages = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": answer}]
        return json.dumps({"id": identity, "messages": messages})

    path = tmp_path / "a.jsonl"
    path.write_text("\n".join([line("1", "x"), line("2", "x"), line("1", "x"), line("1", "other")]))
    report = ingest(pool, path, IngestOptions("chat"))
    assert (report.added, report.known) == (2, 1)
    assert [(bad.line, "other content" in bad.reason) for bad in report.quarantined] == [(4, True)]

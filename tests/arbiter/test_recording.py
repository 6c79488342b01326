"""Recorded outcomes read from CSV files."""

import csv
from pathlib import Path

import pytest

from upturn.arbiter.recording import BadLine, Recording, read_recording, stored_recording
from upturn.errors import IngestError
from upturn.pool import IngestOptions, Pool, ingest

FILES = Path(__file__).parents[1] / "data" / "arbiter"
ROUTELLM = Path(__file__).parents[3] / "shared" / "data" / "routellm_gsm8k_responses.csv"


def read(folder: Path, text: str | bytes, **options: object) -> Recording:
    path = folder / "recording.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_recording(path, **options)  # type: ignore[arg-type]


def test_reads_the_hand_written_file() -> None:
    recording = read_recording(FILES / "replay.csv")
    assert recording.models == ("small/model", "large-model")
    assert recording.families == ("sums", "sums", "words", "words", "words", "sums", "words", "sums")
    assert recording.rewards.tolist() == [[1, 1], [0, 1], [1, 0], [0.25, 0.75], [1, 0], [0, 1], [1, 1], [0, 0]]
    assert recording.costs is not None
    assert recording.costs[:2].tolist() == [[0.1, 1.0], [0.1, 1.2]]
    assert recording.bad_lines == ()
    assert recording.ignored_columns == ("prompt", "small/model_response")


def test_bad_lines_are_skipped_with_line_and_reason() -> None:
    recording = read_recording(FILES / "replay_damaged.csv")
    assert recording.bad_lines == (
        BadLine(3, "no outcome for 'small/model'"),
        BadLine(5, "expected 5 cells, got 3"),
        BadLine(6, "outcome of 'small/model' must be True, False or a number in [0, 1], got 'perhaps'"),
        BadLine(7, "outcome of 'small/model' must be True, False or a number in [0, 1], got '1.5'"),
        BadLine(9, "no family"),
    )
    assert recording.rewards.tolist() == [[1, 1], [0, 1]]


def test_reads_the_published_file() -> None:
    if not ROUTELLM.exists():
        pytest.skip(f"the published recording is not at {ROUTELLM}")
    recording = read_recording(ROUTELLM)
    assert recording.rewards.shape == (1319, 2)
    assert recording.rewards.mean(axis=0).round(4).tolist() == [0.6384, 0.8567]
    assert float(recording.rewards.max(axis=1).mean()) == pytest.approx(0.9287, abs=5e-5)
    assert recording.models == ("mistralai/Mixtral-8x7B-Instruct-v0.1", "gpt-4-1106-preview")
    assert recording.bad_lines == ()


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
@pytest.mark.parametrize("separator", [",", ";", "\t"])
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_encodings_separators_and_line_ends(tmp_path: Path, encoding: str, separator: str, newline: str) -> None:
    lines = [["prompt", "模型", "b"], ['"où\n?"', "True", "0"], ["x", "0.5", "1"]]
    text = newline.join(separator.join(cells) for cells in lines)
    recording = read(tmp_path, text.encode(encoding))
    assert recording.models == ("模型", "b")
    assert recording.rewards.tolist() == [[1, 0], [0.5, 1]]


def test_invalid_bytes_are_replaced(tmp_path: Path) -> None:
    assert read(tmp_path, b"prompt,a\ncaf\xe9,1\nx\x00y,0\n").rewards.tolist() == [[1], [0]]


def test_very_long_cells_are_read_and_the_limit_is_restored(tmp_path: Path) -> None:
    before = csv.field_size_limit()
    recording = read(tmp_path, f"prompt,a,a_response\nx,1,{'y' * 300_000}\n")
    assert recording.rewards.tolist() == [[1]]
    assert csv.field_size_limit() == before


def test_only_columns_with_outcomes_are_models(tmp_path: Path) -> None:
    header = ",Unnamed: 0,prompt,answer,difficulty,a,a_cost,a_tokens,b,b|total_cost,b|model_response,note"
    recording = read(tmp_path, f"{header}\n0,0,1,0,1,1,0.5,1,0,0.25,1,fine\n1,1,0,1,0,nan,0.5,1,True,0.5,0,7\n")
    assert recording.models == ("a", "b")
    assert recording.costs is not None
    assert recording.costs.tolist() == [[0.5, 0.25]]
    assert recording.bad_lines == (BadLine(3, "no outcome for 'a'"),)


def test_costs_need_a_column_for_every_model_and_a_number_in_every_line(tmp_path: Path) -> None:
    assert read(tmp_path, "prompt,a,b,a_cost\nx,1,0,0.5\n").costs is None
    recording = read(tmp_path, "prompt,a,a_cost\nx,1,0.5\ny,1,free\nz,1,-1\n")
    assert [bad.line for bad in recording.bad_lines] == [3, 4]
    assert recording.bad_lines[0].reason == "cost of 'a' must be a number from 0 to 1e+100, got 'free'"


def test_columns_can_be_named(tmp_path: Path) -> None:
    text = "prompt,a,kind,prefers_a\nx,0,left,1\ny,1,right,0\nz,oops,left,1\n"
    recording = read(tmp_path, text, models=["a"], family="kind")
    assert (recording.models, recording.families) == (("a",), ("left", "right"))
    assert [bad.line for bad in recording.bad_lines] == [4]
    assert read(tmp_path, text).models == ("a", "prefers_a")
    with pytest.raises(IngestError, match="no column 'b' for a model"):
        read(tmp_path, text, models=["b"])
    with pytest.raises(IngestError, match="no column 'topic' for the family"):
        read(tmp_path, text, family="topic")


def test_unclosed_quote_is_a_bad_line(tmp_path: Path) -> None:
    recording = read(tmp_path, 'prompt,a\nx,1\n"never closed,0\ny,1\n')
    assert recording.rewards.tolist() == [[1]]
    assert [bad.line for bad in recording.bad_lines] == [3]
    assert recording.bad_lines[0].reason.startswith("not CSV: ")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "is empty"),
        ("\n\n", "is empty"),
        ("prompt,a,b\n", "has a header and no line"),
        ("prompt,reply\nx,hello\ny,world\n", "no column .* has outcomes.*'prompt', 'reply'.*--models"),
        ("prompt,a,b,a\nx,1,0,1\n", "column 'a' .* appears 2 times"),
        ("family,a,family\nx,1,y\n", "column 'family' .* appears 2 times"),
        ("x,True,False\ny,False,True\n", "looks like data"),
        ("prompt,a,b\nx,1,\ny,,0\n", "none of the 2 lines .* line 2: no outcome for 'b'"),
        ("prompt,a\nx\ny,1,2\n", "no column"),
    ],
)
def test_unusable_files_are_rejected_with_the_reason(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(IngestError, match=problem):
        read(tmp_path, text)


def test_missing_files_and_folders_are_reported(tmp_path: Path) -> None:
    with pytest.raises(IngestError, match=r"cannot read .*none\.csv.*No such file"):
        read_recording(tmp_path / "none.csv")
    with pytest.raises(IngestError, match="not a regular file"):
        read_recording(tmp_path)


def test_duplicate_unused_columns_are_accepted(tmp_path: Path) -> None:
    assert read(tmp_path, "prompt,note,note,a\nx,hello,there,1\n").models == ("a",)


def test_lines_with_costs_too_large_to_sum_are_skipped(tmp_path: Path) -> None:
    path = tmp_path / "costs.csv"
    path.write_text("p,a,a_cost\nx,1,1e308\ny,0,1e308\nz,1,1e99\n")
    recording = read_recording(path)
    assert recording.costs is not None
    assert recording.costs.tolist() == [[1e99]]
    assert [bad.line for bad in recording.bad_lines] == [2, 3]


def test_outcomes_in_a_pool_are_a_recording(tmp_path: Path) -> None:
    table = tmp_path / "outcomes.csv"
    rows = [
        "a,x,1,0.1,sums",
        "a,y,0,0.2,sums",
        "a,y,1,0.4,sums",
        "b,x,0.5,0,words",
        "b,y,1,1,words",
        "c,x,1,1,words",
    ]
    table.write_text("\n".join(["task,model,score,cost,family", *rows, "d,y,,1,words"]))
    with Pool.open(tmp_path / "pool.db") as pool:
        ingest(pool, table, IngestOptions())
        recording = stored_recording(pool, tenant="default")
        assert recording.models == ("imported:x@outcomes", "imported:y@outcomes")
        assert recording.families == ("sums", "words")
        assert recording.rewards.tolist() == [[1, 0.5], [0.5, 1]]
        assert recording.costs is not None
        assert recording.costs.ravel() == pytest.approx([0.1, 0.3, 0, 1])
        assert recording.incomplete_tasks == 1
        words = stored_recording(pool, tenant="default", family="words", models=recording.models[::-1])
        assert words.rewards.tolist() == [[1, 0.5]]
        with pytest.raises(IngestError, match=r"scores of: imported:x@outcomes \(3 tasks\), imported:y@outcomes"):
            stored_recording(pool, tenant="default", models=("imported:x@outcomes",))
        with pytest.raises(IngestError, match="scores of: none"):
            stored_recording(pool, tenant="other")

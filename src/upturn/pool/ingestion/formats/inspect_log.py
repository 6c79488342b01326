"""Logs of Inspect (UK AI Security Institute): ``.eval`` files and their JSON form.

An ``.eval`` file is a zip of ``header.json`` (of a run that has not ended, ``_journal/start.json``) and one
file for each sample and epoch, deflated or compressed with zstd. The JSON form is one object with ``eval`` and
``samples``. Texts that stand in ``attachments`` are put in their places. The first scorer is the reward: C = 1,
P = 0.5, I and N = 0, or a number from 0 to 1.
"""

import json
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO

import zstandard

from upturn.errors import IngestError
from upturn.pool.ingestion.formats.conversation import Defaults, Line, LineError, Lines, OpenFile
from upturn.pool.ingestion.formats.json_text import LARGEST_OBJECT
from upturn.pool.ingestion.formats.recorded import Recorded, conversation_of, printable_name, unit_score

LARGEST_SAMPLE = 2**28
"""Bytes of a sample, decompressed; a larger one is quarantined without loading it."""
_ZSTD = 93
"""The method's number in zip files, which Python 3.11 does not read."""
_VALUES = {"C": 1.0, "I": 0.0, "P": 0.5, "N": 0.0}
_ATTACHMENT = "attachment://"


def read_inspect(open_file: OpenFile, defaults: Defaults) -> Lines:
    """Yields the samples. Raises OSError, and IngestError for a file that is no log."""
    with open_file() as file:
        if file.peek(4)[:4] == b"PK\x03\x04":  # type: ignore[attr-defined]  # it is buffered
            yield from _zipped(file, defaults)
        else:
            yield from _json(file, defaults)


def _json(file: BinaryIO, defaults: Defaults) -> Lines:
    content = file.read(LARGEST_OBJECT + 1)
    if len(content) > LARGEST_OBJECT:
        raise IngestError(f"the log has more than {LARGEST_OBJECT} bytes; write it as .eval (inspect log convert)")
    try:
        log = json.loads(content)  # Inspect writes NaN
    except (ValueError, RecursionError) as exc:
        raise IngestError(f"the file is no log of Inspect: {exc}") from exc
    if not isinstance(log, dict) or not isinstance(log.get("eval"), dict):
        raise IngestError("the file is no log of Inspect: an object with eval and samples")
    for number, sample in enumerate(log.get("samples") or (), start=1):
        yield _line(number, sample, log["eval"], defaults)


def _zipped(file: BinaryIO, defaults: Defaults) -> Lines:
    try:
        archive = zipfile.ZipFile(file)
        names = archive.namelist()
        start = next((name for name in ("header.json", "_journal/start.json") if name in names), None)
        header = None if start is None else json.loads(_member(archive, file, archive.getinfo(start)))
    except (zipfile.BadZipFile, ValueError, NotImplementedError) as exc:
        raise IngestError(f"the .eval file is damaged or cut off ({exc}); copy it again") from exc
    about = header.get("eval") if isinstance(header, dict) else None
    if not isinstance(about, dict):
        raise IngestError("the zip file is no log of Inspect: it has no header.json and no _journal/start.json")
    members = (entry for entry in archive.infolist() if entry.filename.startswith("samples/"))
    for number, entry in enumerate(members, start=1):
        try:
            sample = json.loads(_member(archive, file, entry))
        except (zipfile.BadZipFile, zlib.error, ValueError, NotImplementedError, RecursionError, EOFError) as exc:
            yield Line(number, LineError(f"{entry.filename!r:.100}: {exc}"))
            continue
        yield _line(number, sample, about, defaults)


def _member(archive: zipfile.ZipFile, file: BinaryIO, entry: zipfile.ZipInfo) -> bytes:
    """Returns a file of the archive; raises ValueError for one that is too large."""
    if entry.compress_type == _ZSTD:
        content = _zstd_member(file, entry)
    else:
        with archive.open(entry) as member:
            content = member.read(LARGEST_SAMPLE + 1)
    if len(content) > LARGEST_SAMPLE:
        raise ValueError(f"it has more than {LARGEST_SAMPLE} bytes")
    return content


def _zstd_member(file: BinaryIO, entry: zipfile.ZipInfo) -> bytes:
    file.seek(entry.header_offset)
    head = file.read(30)
    if len(head) < 30 or head[:4] != b"PK\x03\x04":
        raise ValueError("the zip file is damaged")
    file.seek(int.from_bytes(head[26:28], "little") + int.from_bytes(head[28:30], "little"), 1)
    packed = file.read(entry.compress_size)
    try:
        with zstandard.ZstdDecompressor(max_window_size=2**27).stream_reader(
            packed, read_across_frames=True
        ) as reader:
            content = reader.read(LARGEST_SAMPLE + 1)
    except zstandard.ZstdError as exc:
        raise ValueError(str(exc)) from exc
    if len(content) <= LARGEST_SAMPLE and zlib.crc32(content) != entry.CRC:
        raise ValueError("its checksum is wrong")
    return content


def _line(number: int, sample: Any, about: Mapping[str, Any], defaults: Defaults) -> Line:
    try:
        return Line(number, conversation_of(_recorded(sample, about), defaults, "inspect"), _text(sample))
    except (LineError, AttributeError, TypeError) as exc:
        return Line(number, LineError(str(exc)), _text(sample))


def _text(sample: Any) -> bytes:
    return json.dumps(sample).encode()


def _recorded(sample: Any, about: Mapping[str, Any]) -> Recorded:
    if not isinstance(sample, dict) or "id" not in sample:
        raise LineError("a sample must be an object with id, epoch and messages")
    attachments = sample.get("attachments") or {}
    task, identity, epoch = printable_name(about.get("task")), sample["id"], sample.get("epoch", 1)
    scores = sample.get("scores") or {}
    values = {name: _value(score.get("value")) for name, score in scores.items()}
    error = sample.get("error")
    run = about.get("eval_id") or about.get("run_id") or about.get("created")
    messages = [_message(message, attachments) for message in sample.get("messages") or ()]
    return Recorded(
        messages,
        _tools(sample),
        task.rpartition("/")[2],
        printable_name(about.get("model")),
        f"{task} {identity}",
        str(sample.get("uuid") or f"{run}:{identity}:{epoch}"),
        reward=next(iter(values.values()), None),
        number=epoch - 1 if isinstance(epoch, int) and epoch > 0 else None,
        error=str(error.get("message", error)) if isinstance(error, dict) else "",
        extra={"scores": _finite({name: score.get("value") for name, score in scores.items()})},
        tags=about.get("tags"),
        context={"target": _finite(sample.get("target")), "source_task": str(identity)},
    )


def _value(value: Any) -> float | None:
    return _VALUES.get(value) if isinstance(value, str) else unit_score(value)


def _message(message: Any, attachments: Mapping[str, Any]) -> dict[str, Any]:
    content = message.get("content")
    thought = ""
    if isinstance(content, list):
        thought = "".join(str(part.get("reasoning", "")) for part in content if part.get("type") == "reasoning")
        parts = [part for part in content if part.get("type") != "reasoning"]
        content = [
            part | {"text": _attached(part["text"], attachments)} if "text" in part else part for part in parts
        ]
        content = content[0]["text"] if len(content) == 1 and "text" in content[0] else content
    else:
        content = _attached(content, attachments)
    calls = [
        {
            "id": call.get("id"),
            "function": {"name": call.get("function"), "arguments": _finite(call.get("arguments") or {})},
        }
        for call in message.get("tool_calls") or ()
    ]
    return {
        "role": message.get("role"),
        "content": content,
        **({"tool_calls": calls} if calls else {}),
        **({"tool_call_id": message["tool_call_id"]} if message.get("tool_call_id") else {}),
        **({"reasoning_content": thought} if thought else {}),
    }


def _attached(text: Any, attachments: Mapping[str, Any]) -> Any:
    if isinstance(text, str) and text.startswith(_ATTACHMENT):
        return attachments.get(text.removeprefix(_ATTACHMENT), text)
    return text


def _tools(sample: Mapping[str, Any]) -> list[Any]:
    """Returns the tools that the first model call was offered."""
    events: Iterator[Any] = (event for event in sample.get("events") or () if event.get("event") == "model")
    first: Any = next(events, {})
    offered = first.get("tools") or ()
    names = ("name", "description", "parameters")
    return [
        {"type": "function", "function": {name: tool[name] for name in names if name in tool}}
        for tool in offered
        if isinstance(tool, dict) and tool.get("name")
    ]


def _finite(value: Any) -> Any:
    """Returns a JSON value in which NaN and infinity are text."""
    if isinstance(value, float):
        return value if value - value == 0 else str(value)
    if isinstance(value, dict):
        return {str(key): _finite(inner) for key, inner in value.items()}
    return [_finite(inner) for inner in value] if isinstance(value, list) else value

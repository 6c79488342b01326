"""Data of OpenAI's evals: samples, event logs of the open-source runner, and output items of the hosted service.

- A sample ``{"input": messages, "ideal": answer}`` is a conversation in which ``ideal`` gives the (first) ideal
  answer, a success.
- In an event log, each ``sampling`` event is a conversation, with the verdict of the ``match`` or the ``score``
  of the ``metrics`` event of its sample, which follows within ``OPEN_SAMPLES`` other samples.
- An output item (``eval.run.output_item``) has ``sample.input``, ``sample.output`` and ``results``.
"""

from collections import OrderedDict
from collections.abc import Iterator
from typing import Any

from pydantic_core import from_json

from upturn.pool.ingestion.formats.conversation import Defaults, Line, LineError, Lines, OpenFile
from upturn.pool.ingestion.formats.json_text import json_objects
from upturn.pool.ingestion.formats.recorded import Recorded, conversation_of, printable_name, unit_score
from upturn.records import JsonValue

OPEN_SAMPLES = 5_000
"""Samples of an event log that wait for their verdicts."""


def read_openai_evals(open_file: OpenFile, defaults: Defaults) -> Lines:
    """Yields the conversations. Raises OSError."""
    log = _Log()
    number = 0
    with open_file() as file:
        for _, text in json_objects(file):
            for content, kept in _read(text, log):
                number += 1
                yield _line(number, content, kept, defaults)
    for content in log.rest():
        number += 1
        yield _line(number, content, b"", defaults)


def _read(text: bytes | LineError, log: "_Log") -> Iterator[tuple[Recorded | LineError, bytes]]:
    if isinstance(text, LineError):
        yield text, b""
        return
    try:
        row = from_json(text, allow_inf_nan=False)
        if not isinstance(row, dict):
            raise LineError("a line must be an object")
        if "event_id" in row or "spec" in row or "final_report" in row:
            yield from ((recorded, b"") for recorded in log.add(row))
        elif isinstance(row.get("sample"), dict) and "results" in row:
            yield _output_item(row), text
        else:
            yield _sample(row), text
    except (ValueError, TypeError, AttributeError) as exc:
        yield LineError(str(exc)), text


def _line(number: int, content: Recorded | LineError, text: bytes, defaults: Defaults) -> Line:
    try:
        if isinstance(content, LineError):
            raise content
        return Line(number, conversation_of(content, defaults, "evals"), text)
    except LineError as exc:
        return Line(number, exc, text)


def _sample(row: dict[str, Any]) -> Recorded:
    if "input" not in row or "ideal" not in row:
        raise LineError("a sample must have input and ideal, an output item sample and results")
    ideal = row["ideal"][0] if isinstance(row["ideal"], list) and row["ideal"] else row["ideal"]
    if not isinstance(ideal, str):
        raise LineError("ideal must be text or a list of texts")
    extra = {key: value for key, value in row.items() if key not in ("input", "ideal")}
    others = row["ideal"][1:] if isinstance(row["ideal"], list) else []
    messages = [*_messages(row["input"], "user"), {"role": "assistant", "content": ideal}]
    return Recorded(messages, model="ideal", success=True, extra=extra | ({"ideal": others} if others else {}))


def _output_item(row: dict[str, Any]) -> Recorded:
    sample, results = row["sample"], row.get("results") or []
    passed = [result.get("passed") for result in results if isinstance(result, dict)]
    scores = {str(result.get("name")): unit_score(result.get("score")) for result in results}
    known: dict[str, JsonValue] = {name: score for name, score in scores.items() if score is not None}
    error = sample.get("error")
    return Recorded(
        [*_messages(sample.get("input"), "user"), *_messages(sample.get("output"), "assistant")],
        family=printable_name(row.get("eval_id")),
        model=printable_name(sample.get("model")),
        task_id=f"{row.get('eval_id')} {row.get('datasource_item_id')}" if "datasource_item_id" in row else "",
        identity=printable_name(row.get("id")) or None,
        reward=next((score for score in scores.values() if score is not None), None) if len(known) == 1 else None,
        success=all(passed) if passed and None not in passed else None,
        error=str(error.get("message", error)) if isinstance(error, dict) and error.get("message") else "",
        extra={"scores": known, "item": row.get("datasource_item")},
    )


def _messages(value: Any, role: str) -> list[Any]:
    if isinstance(value, str):
        return [{"role": role, "content": value}]
    if isinstance(value, list) and all(isinstance(entry, str) for entry in value):
        return [{"role": role, "content": entry} for entry in value[:1]]
    if not isinstance(value, list):
        raise LineError("messages must be text or a list")
    return value


class _Log:
    """An event log as far as it was read."""

    def __init__(self) -> None:
        self._eval = ""
        self._models = ""
        self._waiting: OrderedDict[str, list[dict[str, Any]]] = OrderedDict()
        """Events by sample."""

    def add(self, row: dict[str, Any]) -> Iterator[Recorded | LineError]:
        """Yields what has waited long enough."""
        if "spec" in row:
            self._eval = printable_name(row["spec"].get("base_eval") or row["spec"].get("eval_name"))
            self._models = printable_name(next(iter(row["spec"].get("completion_fns") or ()), ""))
        elif "event_id" in row:
            key = str(row.get("sample_id"))
            self._waiting.setdefault(key, []).append(row)
            self._waiting.move_to_end(key)
        while len(self._waiting) > OPEN_SAMPLES:
            yield from self._sampled(self._waiting.popitem(last=False)[1])

    def rest(self) -> Iterator[Recorded | LineError]:
        """Yields what still waits."""
        for events in self._waiting.values():
            yield from self._sampled(events)

    def _sampled(self, events: list[dict[str, Any]]) -> Iterator[Recorded | LineError]:
        bodies = [(event.get("type"), event.get("data") or {}) for event in events]
        correct = next((body.get("correct") for kind, body in bodies if kind == "match"), None)
        metrics = next((body for kind, body in bodies if kind == "metrics"), {})
        error = next((str(body.get("message", body)) for kind, body in bodies if kind == "error"), "")
        for event in events:
            if event.get("type") == "sampling":
                try:
                    yield self._recorded(event, correct, metrics, error)
                except (LineError, AttributeError, TypeError) as exc:
                    yield LineError(f"event {event['event_id']} of {event.get('sample_id')}: {exc}")

    def _recorded(self, event: dict[str, Any], correct: Any, metrics: dict[str, Any], error: str) -> Recorded:
        told = event["data"]
        sampled = told.get("sampled")
        return Recorded(
            [*_messages(told.get("prompt"), "user"), *_messages(sampled, "assistant")],
            family=self._eval,
            model=printable_name(told.get("model")) or self._models,
            task_id=f"{self._eval} {event.get('sample_id')}",
            identity=f"{event.get('run_id')}:{event['event_id']}",
            reward=unit_score(metrics.get("score")),
            success=correct if isinstance(correct, bool) else None,
            error=error,
            extra={"metrics": metrics} if metrics else {},
        )

"""Inspect's log of an evaluation, ``.eval``: a zip file that ``inspect view`` opens.

It has ``_journal/start.json``, a file in ``samples/`` for each trajectory, ``summaries.json`` and ``header.json``,
as version 2 of the format has them. A sample is an attempt at a task: its id is the task's, its epoch the number of
the attempt. Not covered: Inspect's events, so its transcript is empty; its messages are not.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from tempfile import TemporaryFile
from typing import BinaryIO
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

from upturn import __version__
from upturn.dialects import (
    Json,
    Message,
    Reasoning,
    Text,
    ToolCall,
    ToolResult,
    json_object,
    message_text,
)
from upturn.pool.exports.source import ChatPoint, ChatSource
from upturn.records import Evaluation, JsonValue, Trajectory

_VERSION = 2
"""Of Inspect's log format."""
_PLAN: Json = {"name": "plan", "steps": [], "config": {}}
_SUMMARY_INPUT = 1_000
"""Characters of an instruction in the list of samples."""


def write_inspect(
    source: ChatSource, file: BinaryIO, now: float, on_point: Callable[[], object] = lambda: None
) -> int:
    """Writes the log of the source's trajectories of all splits; returns their number.

    ``now``: when it is written (UTC, seconds since 1970). ``on_point`` is called for each trajectory.
    """
    log = _Log(source.tenant, datetime.fromtimestamp(now, UTC).isoformat())
    with ZipFile(file, "w", ZIP_DEFLATED) as archive, TemporaryFile() as summaries:
        _add(archive, "_journal/start.json", {"version": _VERSION, "eval": log.spec(), "plan": _PLAN})
        for experience in source.experiences(split=None):
            point = source.read(experience, has_end=True)
            on_point()
            if point is None:
                continue
            sample = log.sample(point)
            _add(archive, f"samples/{sample['id']}_epoch_{sample['epoch']}.json", sample)
            summaries.write(b"," if log.count > 1 else b"[")
            summaries.write(json.dumps(_summary(sample), ensure_ascii=False).encode())
        summaries.write(b"]" if log.count else b"[]")
        summaries.seek(0)
        with archive.open(_deflated("summaries.json"), "w", force_zip64=True) as target:
            while block := summaries.read(2**20):
                target.write(block)
        _add(archive, "header.json", log.header())
    return log.count


def _add(archive: ZipFile, name: str, content: Json) -> None:
    archive.writestr(_deflated(name), json.dumps(content, ensure_ascii=False))


def _deflated(name: str) -> ZipInfo:
    info = ZipInfo(name)  # with a fixed time, so that equal exports are equal files
    info.compress_type = ZIP_DEFLATED
    return info


class _Log:
    """What the header of a log says; single use."""

    def __init__(self, tenant: str, created: str) -> None:
        self._tenant, self._created = tenant, created
        self._epochs: Counter[str] = Counter()
        self._agents: set[str] = set()
        self._scored: Counter[str] = Counter()
        self._sums: defaultdict[str, float] = defaultdict(float)
        self.count = 0

    def sample(self, point: ChatPoint) -> Json:
        self.count += 1
        self._epochs[point.task.id] += 1
        self._agents.add(point.trajectory.agent_version)
        evaluation = point.evaluation
        if evaluation is not None and evaluation.score is not None:
            self._scored[evaluation.evaluator] += 1
            self._sums[evaluation.evaluator] += evaluation.score
        return _sample(point, self._epochs[point.task.id])

    def spec(self) -> Json:
        """Returns what was evaluated, as far as it is known; complete after the last sample."""
        return {
            "eval_id": f"upturn-{self._tenant}",
            "run_id": "",
            "created": self._created,
            "task": f"upturn/{self._tenant}",
            "task_id": "",
            "task_version": 0,
            "dataset": {"name": self._tenant, "samples": self.count},
            "model": {0: "unknown", 1: "".join(self._agents)}.get(len(self._agents), "several agents"),
            "config": {},
            "packages": {"upturn": __version__},
        }

    def header(self) -> Json:
        scores: list[JsonValue] = [
            {
                "name": evaluator,
                "scorer": evaluator,
                "scored_samples": count,
                "unscored_samples": self.count - count,
                "params": {},
                "metrics": {"mean": {"name": "mean", "value": self._sums[evaluator] / count, "params": {}}},
            }
            for evaluator, count in sorted(self._scored.items())
        ]
        return {
            "version": _VERSION,
            "status": "success",
            "eval": self.spec(),
            "plan": _PLAN,
            "results": {"total_samples": self.count, "completed_samples": self.count, "scores": scores},
            "stats": {"started_at": "", "completed_at": self._created, "model_usage": {}, "role_usage": {}},
        }


def _sample(point: ChatPoint, epoch: int) -> Json:
    task, trajectory = point.task, point.trajectory
    messages = [line for chat in point.chats for line in _messages(chat.messages)]
    sample: Json = {
        "id": task.id,
        "epoch": epoch,
        "input": task.instruction,
        "target": "",
        "messages": list(messages),
        "output": _output(trajectory, messages),
        "scores": {} if point.evaluation is None else _scores(point.evaluation),
        "metadata": {
            "trajectory": trajectory.id,
            "agent": trajectory.agent_version,
            "family": task.family,
            "environment": task.environment,
            "level": task.level,
            "split": task.split,
            "outcome": trajectory.outcome,
            "origin": trajectory.origin,
        },
        "store": {},
        "events": [],
        "model_usage": _usage(trajectory),
        "role_usage": {},
        "total_time": trajectory.usage.seconds,
        "uuid": trajectory.id,
        "attachments": {},
    }
    if trajectory.error:
        sample["error"] = {"message": trajectory.error, "traceback": "", "traceback_ansi": ""}
    return sample


def _summary(sample: Json) -> Json:
    """Returns the row of a sample in Inspect's list."""
    messages, error = sample["messages"], sample.get("error")
    names = ("id", "epoch", "target", "scores", "metadata", "model_usage", "role_usage", "total_time", "uuid")
    return {
        **{name: sample[name] for name in names},
        "input": str(sample["input"])[:_SUMMARY_INPUT],
        "completed": True,
        "message_count": len(messages) if isinstance(messages, list) else 0,
        **({"error": error["message"]} if isinstance(error, dict) else {}),
    }


def _usage(trajectory: Trajectory) -> Json:
    """Returns the counted tokens by agent version; empty = none are known."""
    read, written = trajectory.usage.prompt_tokens, trajectory.usage.written_tokens
    if read == written == 0:
        return {}
    tokens: Json = {"input_tokens": read, "output_tokens": written, "total_tokens": read + written}
    return {trajectory.agent_version: tokens}


def _output(trajectory: Trajectory, messages: Sequence[Json]) -> Json:
    last = next((message for message in reversed(messages) if message["role"] == "assistant"), None)
    reason = {"token_limit": "max_tokens", "finished": "stop"}.get(trajectory.outcome, "unknown")
    choices: list[JsonValue] = [] if last is None else [{"message": last, "stop_reason": reason}]
    return {"model": trajectory.agent_version, "choices": choices}


def _scores(evaluation: Evaluation) -> Json:
    """Returns the score by its evaluator; empty = it is missing."""
    if evaluation.verdict == "missing" and evaluation.score is None:
        return {}
    verdict = "C" if evaluation.is_success else "I"  # Inspect's words for correct and incorrect
    failed = [gate for gate in evaluation.gates if not gate.is_passed]
    explanation = "; ".join(f"{gate.name}: {gate.detail}".rstrip(": ") for gate in failed)
    return {
        evaluation.evaluator: {
            "value": verdict if evaluation.score is None else evaluation.score,
            "explanation": explanation or None,
            "metadata": {
                "verdict": evaluation.verdict,
                "rewards": dict(evaluation.rewards),
                "costs": dict(evaluation.costs),
            },
            "history": [],
        }
    }


def _messages(messages: Sequence[Message]) -> list[Json]:
    names: dict[str, str] = {}
    """Of called functions, by the call's id."""
    lines: list[Json] = []
    for message in messages:
        calls = [part for part in message.parts if isinstance(part, ToolCall)]
        names |= {call.id: call.name for call in calls}
        results = [part for part in message.parts if isinstance(part, ToolResult)]
        if results:
            lines += [_result(result, names.get(result.call_id, "")) for result in results]
            continue
        line: Json = {"role": message.role, "content": _content(message)}
        if calls:
            line["tool_calls"] = [_call(call) for call in calls]
        lines.append(line)
    return lines


def _content(message: Message) -> JsonValue:
    thoughts: list[JsonValue] = [
        {"type": "reasoning", "reasoning": part.text} for part in message.parts if isinstance(part, Reasoning)
    ]
    text = "".join(part.text for part in message.parts if isinstance(part, Text))
    return [*thoughts, {"type": "text", "text": text}] if thoughts else text


def _call(call: ToolCall) -> Json:
    arguments = json_object(call.arguments or "{}")
    line: Json = {"id": call.id, "type": "function", "function": call.name, "arguments": arguments or {}}
    if arguments is None:
        line["parse_error"] = f"not a JSON object: {call.arguments}"
    return line


def _result(result: ToolResult, name: str) -> Json:
    text = message_text(Message("tool", (result,)))
    line: Json = {"role": "tool", "tool_call_id": result.call_id, "function": name, "content": text}
    if result.is_error:
        line["error"] = {"type": "unknown", "message": text}
    return line

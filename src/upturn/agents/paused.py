"""Rollouts that pause before their end and are continued later, by newer weights.

A paused rollout is plain data: it can be stored with a checkpoint and continued in another process. Its environment
is made again by repeating the recorded actions, and its agent acts again on the turn that was not finished, so both
must be deterministic. Every span of tokens names the weights that wrote it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from upturn.agents.recorder import Recorder, recorded_row
from upturn.errors import ModelError
from upturn.models import FinishReason, Generation
from upturn.records import ModelUsage, Observation, Task, TokenRow, Turn, record


class RolloutPausedError(Exception):
    """The model gives no more tokens for now: the rollout pauses. Not a failure of the model."""


@dataclass
class Pause:
    """Pauses rollouts before their next turn or call, once it is set."""

    is_set: bool = False


@record
class PausedCall:
    """A call of the turn that was not finished."""

    prompt_ids: tuple[int, ...]
    token_ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    is_complete: bool
    """False = the model was interrupted after these tokens; the call continues after them."""
    is_stopped: bool = False
    """For a complete call: it ended with a stop id, not at its limit."""
    model_version: str = ""
    """Hash of the weights that wrote the last token."""
    sampling_logprobs: tuple[float, ...] = ()
    """As in ``TokenRow``."""


@record
class PausedRollout:
    """The state of a rollout between two tokens."""

    id: str
    """Of its trajectory."""
    task: Task
    number: int
    """Index among the rollouts of this task, from 0."""
    seed: int
    """Of the rollout: its calls draw what they would have drawn without a pause."""
    turns: tuple[Turn, ...]
    """The finished turns."""
    observation: Observation
    """The observation that the next turn answers."""
    state_hash: str
    potential: float | None
    rows: tuple[TokenRow, ...]
    """All tokens so far; every span names the weights that wrote it."""
    history: tuple[int, ...]
    """Prompt and output of the last call before the unfinished turn."""
    finished_calls: int
    """Calls of all turns so far that are complete; seeds further calls."""
    calls: tuple[PausedCall, ...]
    """Calls of the unfinished turn. Its agent acts again: calls with the same prompts get the recorded answers."""
    seconds: float
    """Wall-clock time so far."""
    model_version: str
    """Hash of the weights that wrote the latest token; empty = there is none."""
    external: ModelUsage = ModelUsage()
    """Tokens of other models than the rollout's."""


@dataclass
class PausableRecorder(Recorder):
    """A recorder whose rollout may pause, also within a call."""

    pause: Pause = field(default_factory=Pause)
    turn_history: tuple[int, ...] = ()
    """The history before the present turn."""
    _earlier_version: str = ""
    """Weights of the latest token before the pause."""
    _done: list[PausedCall] = field(default_factory=list)
    """Complete calls of the present turn."""
    _recorded: list[PausedCall] = field(default_factory=list)
    """Calls that the turn made before the pause, still to be repeated; only the last may be incomplete."""

    @property
    def version(self) -> str:
        """Hash of the weights that wrote the latest token; empty = there is none."""
        return self.model_version or self._earlier_version

    def start_turn(self, turn: int) -> None:
        """See ``Recorder.start_turn``."""
        super().start_turn(turn)
        self.turn_history, self._done = self.history, []

    def restore(self, paused: PausedRollout) -> None:
        """Continues a paused rollout; call it before the first ``generate``."""
        self._rows = [recorded_row(row) for row in paused.rows]
        self.history, self.calls = paused.history, paused.finished_calls
        self._earlier_version, self._recorded = paused.model_version, list(paused.calls)

    def unfinished_calls(self) -> tuple[PausedCall, ...]:
        """The calls of the present turn."""
        return (*self._done, *self._recorded)

    def stamped_rows(self) -> tuple[TokenRow, ...]:
        """All rows so far; every span names the weights that wrote it."""
        return tuple(_with_versions(row.record(self.turn + 1), {"": self.version}) for row in self._rows)

    def rows(self, turns: int) -> tuple[TokenRow, ...]:
        """See ``Recorder.rows``; spans of other weights than the latest name them."""
        return tuple(_with_versions(row, {self.version: ""}) for row in super().rows(turns))

    async def generate(
        self,
        prompt_ids: Sequence[int],
        *,
        max_tokens: int,
        stop_ids: tuple[int, ...],
        fork_cause: str | None = None,
    ) -> Generation:
        """See ``Recorder.generate``. A call from before the pause gets its recorded answer, or goes on after it.

        Raises RolloutPausedError when the rollout is to pause, ModelError where the agent now calls differently.
        """
        prompt, begun = tuple(prompt_ids), self._recorded[0] if self._recorded else None
        if begun is not None and begun.prompt_ids != prompt:
            raise ModelError(
                "the agent calls its model differently after a pause: in the same turn its prompt of "
                f"{len(prompt)} tokens is not the one of {len(begun.prompt_ids)} from before; make the agent "
                "deterministic, or sample without partial rollouts"
            )
        if begun is not None and begun.is_complete:
            self._done.append(self._recorded.pop(0))
            self.history = prompt + begun.token_ids
            return _generation(begun)
        if self.pause.is_set:
            raise RolloutPausedError
        begun = begun or PausedCall(prompt, (), (), is_complete=False)
        written = begun.token_ids
        request = replace(
            self.request,
            prompt_ids=prompt + written,
            max_tokens=max_tokens - len(written),
            stop_ids=stop_ids,
            drawn=len(written),
        )
        generation = await self.call(request, fork_cause)
        self._recorded = []
        is_complete = generation.finish_reason != "interrupted"
        call = PausedCall(
            prompt,
            written + generation.token_ids,
            begun.logprobs + generation.logprobs,
            is_complete=is_complete,
            is_stopped=generation.finish_reason == "stop",
            model_version=generation.model_version,
            sampling_logprobs=begun.sampling_logprobs + generation.sampling_logprobs,
        )
        if not is_complete:
            self.calls -= 1  # the same call goes on
            self._recorded = [call] if call.token_ids else []
            raise RolloutPausedError
        self._done.append(call)
        return _generation(call)


def _generation(call: PausedCall) -> Generation:
    reason: FinishReason = "stop" if call.is_stopped else "length"
    return Generation(call.token_ids, call.logprobs, reason, call.model_version, call.sampling_logprobs)


def _with_versions(row: TokenRow, names: dict[str, str]) -> TokenRow:
    """The row with the versions of its spans replaced."""
    spans = (replace(span, model_version=names.get(span.model_version, span.model_version)) for span in row.spans)
    return replace(row, spans=tuple(spans))

"""The turns of a program's attempt: one for each completion of its model, with what it did to the environment.

A completion's turn has the environment's observation if the program has stepped the environment since its last
completion, and otherwise what the program sent since. A step belongs to the latest completion; a second one before
the next completion is a turn of its own.
"""

import asyncio
from collections.abc import Callable
from dataclasses import replace

from upturn.agents.agent import AttemptEnd, Reply
from upturn.agents.message_turn import call_action, new_messages, seen_text, thought_of, written_text
from upturn.agents.program.captured_call import CapturedCall, joined_calls, stored_calls
from upturn.agents.program.generator import COMPLETION, Completion
from upturn.agents.recorder import Recorder
from upturn.agents.stage import Stage
from upturn.dialects import RequestError, Text, TokenUsage, ToolCall
from upturn.environments import Step, recordable_action, recordable_text
from upturn.errors import ModelError, error_text
from upturn.models import FunctionNames
from upturn.records import Action, ModelUsage, Observation

_FIRST = CapturedCall((), None, TokenUsage())


class AttemptTurns:
    """Writes the turns of one attempt. Single use."""

    def __init__(self, stage: Stage, model: Recorder, names: FunctionNames) -> None:
        """``names``: of the environment's tools. The recorder asks here for the turns of its outputs."""
        self.stage = stage
        self.stopped: asyncio.Future[AttemptEnd] = asyncio.get_running_loop().create_future()
        """Why the attempt is over although the program still runs; pending = it is not."""
        self.answer: str | None = None
        """That the program has sent; None = none so far."""
        self._model = model
        self._names = names
        self._open: int | None = None
        """The latest completion's turn, while the environment has not been stepped in it."""
        self._stepped = True
        """Whether the environment's observation is new to the program."""
        self._shown = stage.observation
        self._before = _FIRST
        self._unstored: list[CapturedCall] = []
        """Calls without a turn since the last one that has one."""
        self._unstored_usage = ModelUsage()
        model.next_turn = self._begin

    @property
    def environment_observation(self) -> Observation:
        """What the environment showed last."""
        return self._shown

    def discard(self, turn: int) -> None:
        """The program never received the turn's answer, so its tokens are not trained on."""
        self._model.discard(turn)

    def admit(self) -> None:
        """Raises RequestError, and stops the attempt, where it has no turn left."""
        if self.stopped.done():
            raise RequestError("the attempt is over", status=409, code="attempt_over")
        limit = self.stage.limits.max_turns
        if len(self.stage.turns) >= limit:
            self.stop(AttemptEnd("step_limit"))
            message = f"the attempt has had its {limit} turns (environment.max_turns)"
            raise RequestError(message, status=409, code="step_limit")

    def reason(self) -> AttemptEnd | None:
        """Why the attempt was stopped; None = it was not."""
        return self.stopped.result() if self.stopped.done() else None

    def stop(self, end: AttemptEnd) -> None:
        """Ends the attempt; only the first reason counts."""
        if not self.stopped.done():
            self.stopped.set_result(end)

    def fail(self, error: ModelError) -> None:
        """Ends the attempt: its model has failed."""
        self.stop(AttemptEnd("model_error", error_text(error)))

    def _begin(self) -> int:
        """The index of a new turn, for the current completion."""
        return self._note(COMPLETION.get())

    def _note(self, completion: Completion) -> int:
        if not self._stepped:
            self.stage.observation = Observation(
                recordable_text(seen_text(new_messages(completion.request.messages)))
            )
        self._stepped = False
        self._open = completion.turn = self.stage.note(Reply("", None))
        return self._open

    def record(self, completion: Completion, call: CapturedCall, usage: ModelUsage) -> None:
        """Writes a call that has ended. ``usage``: of a call without tokens of the rollout."""
        self.add_usage(usage)
        self._unstored.append(call)
        if completion.turn is None and call.is_own and call.answer is not None:
            self._note(completion)
        if completion.turn is None or call.answer is None:
            return
        parts = call.answer.parts
        calls = [part for part in parts if isinstance(part, ToolCall)]
        thought = recordable_text(thought_of(parts))
        if calls:
            action = call_action(calls[0], thought, self._names)
            refusal = "" if action is not None else "arguments: they are not a JSON object"
        else:
            said = "".join(part.text for part in parts if isinstance(part, Text))
            action, refusal = Action("user", "say", {"text": said}, thought), ""
        turn = self.stage.turns[completion.turn]
        text = recordable_text(written_text(parts) if completion.text is None else completion.text)
        if turn.action is None and action is not None:
            turn = replace(turn, action=recordable_action(action))
        self.stage.amend(completion.turn, replace(turn, text=text, refusal=refusal))
        self._store(completion.turn)

    def add_usage(self, usage: ModelUsage) -> None:
        """Adds tokens of models outside of the rollout."""
        self.stage.external = self.stage.external.plus(usage)
        self._unstored_usage = self._unstored_usage.plus(usage)

    def _store(self, index: int) -> None:
        """Writes calls and usage since the last turn into the turn with this index, beside what it has."""
        turn = self.stage.turns[index]
        if self._unstored:
            message = joined_calls(turn.message, stored_calls(self._unstored, self._before))
            turn = replace(turn, message=message)
            self._before, self._unstored = self._unstored[-1], []
        if self._unstored_usage != ModelUsage():
            used = (turn.usage or ModelUsage()).plus(self._unstored_usage)
            turn = replace(turn, usage=used)
            self._unstored_usage = ModelUsage()
        self.stage.amend(index, turn)

    async def step(self, action: Action | None, text: str = "") -> Observation:
        """Executes an action in the environment; returns its observation.

        ``action``: None = ``text`` is no action. Raises RequestError where the task is over or no turn is left.
        """
        if self.stopped.done() or self.stage.outcome is not None:
            raise RequestError("the task is over", status=409, code="task_over")
        if self._open is None:
            self.admit()
        reply = Reply(text, action)
        index, self._open = self._open, None
        if index is not None and action is None:
            self.stage.amend(index, replace(self.stage.turns[index], action=None))
        try:
            outcome = await self.stage.step(reply, index)
        except (Exception, SystemExit) as exc:
            self.stop(AttemptEnd("environment_error", error_text(exc)))
            raise RequestError("the environment failed", status=500, code="environment_error") from exc
        self._stepped, self._shown = True, self.stage.observation
        if outcome == "step_limit":
            self.stop(AttemptEnd("step_limit"))
        return self.stage.observation

    async def finish(self, replies: list[Reply], act: Callable[[], Step] | None) -> AttemptEnd:
        """Executes the program's answer: each reply, or ``act`` where the environment takes its end as such.

        The last completion's turn has the answer; without one it is a turn of its own.
        """
        outcome = self.stage.outcome
        try:
            if act is not None:
                outcome = await self.stage.take(replies[0], act, self._open)
            elif outcome is None:
                for reply in replies:
                    outcome = await self.stage.step(reply, self._open)
                    self._open = None
                    if outcome is not None:
                        break
        except (Exception, SystemExit) as exc:  # noqa: BLE001  a failed environment is recorded
            return AttemptEnd("environment_error", error_text(exc))
        return AttemptEnd(outcome or "finished")

    def close(self) -> None:
        """Stores the calls that no later turn has."""
        if self.stage.turns:
            self._store(len(self.stage.turns) - 1)
        self._model.next_turn = None

"""Our side of a sampling comparison: the local engine, asked by a coroutine for each attempt, as agents ask it."""

import asyncio
import time

from benchmarks.implementations.sampling import Written, prepare, score, scored
from benchmarks.worker_process import Channel, Settings, serve_steps
from benchmarks.workloads import Conversations
from upturn.models import GenerationRequest
from upturn.models.engine import LocalEngine


class Sampling:
    """One engine; each step takes the weights anew, as an iteration of training does, with nothing cached."""

    def __init__(self, engine: LocalEngine, conversations: Conversations) -> None:
        self._engine = engine
        self._conversations = conversations
        self._prompts = [tuple(row) for row in conversations.prompts().tolist()]
        self._observations = conversations.observations().tolist()
        self._lengths = conversations.lengths().tolist()
        self._steps = 0

    def step(self) -> dict[str, float]:
        """All conversations from their prompts to the end of the last turn."""
        started = time.perf_counter()
        self.attempts()
        return {"seconds": time.perf_counter() - started}

    def attempts(self) -> list[Written]:
        """What was written, attempt by attempt."""
        self._steps += 1
        self._engine.refresh()
        return asyncio.run(self._all())

    async def _all(self) -> list[Written]:
        return list(await asyncio.gather(*(self._attempt(index) for index in range(self._conversations.live))))

    async def _attempt(self, index: int) -> Written:
        history, session = self._prompts[index], f"{self._steps}/{index}"
        order = divmod(index, self._conversations.attempts)
        positions: list[int] = []
        logprobs: list[float] = []
        for turn in range(self._conversations.turns):
            request = GenerationRequest(
                prompt_ids=history,
                max_tokens=self._lengths[turn][index],
                stop_ids=(),
                temperature=1.0,
                session=session,
                order=order,
                seed=(self._steps * 1_000 + turn) * 1_000_000 + index,
            )
            written = await self._engine.generate(request)
            positions += range(len(history), len(history) + len(written.token_ids))
            logprobs += written.logprobs
            history = (*history, *written.token_ids, *self._observations[turn][index])
        self._engine.release(session)
        return Written(history, positions, logprobs)


def engine_side(channel: Channel, settings: Settings) -> None:
    """Answers how well its log-probs agree with a dense pass, and then makes timed steps."""
    model, conversations = prepare(settings)
    channel.mark_baseline()
    engine = LocalEngine(model, slots=conversations.live, max_length=conversations.context)
    sampling = Sampling(engine, conversations)
    attempts = sampling.attempts()
    found = score(model, [attempts[index] for index in scored(conversations)])
    serve_steps(channel, found._asdict(), sampling.step)

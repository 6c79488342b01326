"""The library's implementation of sampling: the local engine, called by one coroutine per rollout, as by agents."""

import asyncio

from benchmarks.implementations.sampling import SampledRollout, prepare, score, scored_indices
from benchmarks.machine import now
from benchmarks.worker_process import Channel, Settings, serve_steps
from benchmarks.workloads import Conversations
from upturn.models import GenerationRequest
from upturn.models.engine import LocalEngine


class EngineSampler:
    """One engine; each step reloads the weights, as in training, and starts with an empty cache."""

    def __init__(self, engine: LocalEngine, conversations: Conversations, device: str = "cpu") -> None:
        self._engine = engine
        self._device = device
        self._conversations = conversations
        self._prompts = [tuple(row) for row in conversations.prompts().tolist()]
        self._observations = conversations.observations().tolist()
        self._lengths = conversations.lengths().tolist()
        self._steps = 0

    def step(self) -> dict[str, float]:
        """Seconds of all conversations from their prompts to the end of the last turn."""
        started = now(self._device)
        self.sample()
        return {"seconds": now(self._device) - started}

    def sample(self) -> list[SampledRollout]:
        """All rollouts."""
        self._steps += 1
        self._engine.refresh()
        return asyncio.run(self._sample_all())

    async def _sample_all(self) -> list[SampledRollout]:
        return await asyncio.gather(*(self._sample(index) for index in range(self._conversations.rollouts)))

    async def _sample(self, index: int) -> SampledRollout:
        history, session = self._prompts[index], f"{self._steps}/{index}"
        order = divmod(index, self._conversations.group_size)
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
            generation = await self._engine.generate(request)
            positions += range(len(history), len(history) + len(generation.token_ids))
            logprobs += generation.logprobs
            history = (*history, *generation.token_ids, *self._observations[turn][index])
        self._engine.release(session)
        return SampledRollout(history, positions, logprobs)


def serve_sampling(channel: Channel, settings: Settings) -> None:
    """Sends the scores of its tokens, and then timed steps."""
    model, conversations = prepare(settings)
    device = model.device.type
    channel.mark_baseline(device)
    engine = LocalEngine(model, slots=conversations.rollouts, max_length=conversations.context)
    sampler = EngineSampler(engine, conversations, device)
    rollouts = sampler.sample()
    scores = score(model, [rollouts[index] for index in scored_indices(conversations)])
    serve_steps(channel, scores._asdict(), sampler.step)

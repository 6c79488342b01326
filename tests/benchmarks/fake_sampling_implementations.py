"""Implementations that sample nothing: times and figures come from their settings."""

from benchmarks.worker_process import Channel, Settings, serve_steps

SECONDS = {"whole": 8.0, "growing": 3.0, "allocated": 2.5, "shared": 1.5}


def engine(channel: Channel, settings: Settings) -> None:
    """One second per step, whatever the settings."""
    _serve(channel, 1.0, 2e-6, 0.3)


def slow_engine(channel: Channel, settings: Settings) -> None:
    """Hardly faster than the best baseline."""
    _serve(channel, 2.2, 2e-6, 0.3)


def generate(channel: Channel, settings: Settings) -> None:
    """Slower with every cache, and more so with longer prompts."""
    conversations = settings["conversations"]
    assert isinstance(conversations, dict)
    factor = 2.0 if conversations["prompt_tokens"] == 1_000 else 1.0
    _serve(channel, factor * SECONDS[str(settings["cache"])], 1e-6, -0.2)


def wrong_logprobs(channel: Channel, settings: Settings) -> None:
    """Scores of an engine with a mistake in its mask."""
    _serve(channel, 1.0, 3e-3, 0.1)


def wrong_tokens(channel: Channel, settings: Settings) -> None:
    """Scores of a sampler that favours likely tokens."""
    _serve(channel, 1.0, 1e-6, 17.0)


def training(channel: Channel, settings: Settings) -> None:
    """Three seconds with synchronous rollouts, two of them sampling, and two with asynchronous rollouts."""
    seconds = 3.0 - float(str(settings["staleness"]))
    channel.mark_baseline()
    memory = b"x" * 1_000_000
    step = {"seconds": seconds, "waited_seconds": seconds - 1, "written_tokens": 7.0, "size": float(len(memory))}
    serve_steps(channel, step, lambda: step)


def _serve(channel: Channel, seconds: float, gap: float, score: float) -> None:
    channel.mark_baseline()
    memory = b"x" * 1_000_000
    prepared = {"max_logprob_gap": gap, "mean_logprob_gap": gap / 2, "z_score": score}
    serve_steps(channel, prepared, lambda: {"seconds": seconds, "size": len(memory)})

"""Sides of a sampling comparison that sample nothing: times and figures come from their settings."""

from benchmarks.worker_process import Channel, Settings, serve_steps

SECONDS = {"whole": 8.0, "growing": 3.0, "allocated": 2.5, "shared": 1.5}


def engine(channel: Channel, settings: Settings) -> None:
    """One second a step, whatever it is asked for."""
    _serve(channel, 1.0, 2e-6, 0.3)


def slow_engine(channel: Channel, settings: Settings) -> None:
    """Hardly faster than the best of the others."""
    _serve(channel, 2.2, 2e-6, 0.3)


def generate(channel: Channel, settings: Settings) -> None:
    """Slower in every way; with longer prompts more so."""
    conversations = settings["conversations"]
    assert isinstance(conversations, dict)
    factor = 2.0 if conversations["prompt_tokens"] == 1_000 else 1.0
    _serve(channel, factor * SECONDS[str(settings["how"])], 1e-6, -0.2)


def wrong_logprobs(channel: Channel, settings: Settings) -> None:
    """As an engine with a mistake in its mask would answer."""
    _serve(channel, 1.0, 3e-3, 0.1)


def wrong_tokens(channel: Channel, settings: Settings) -> None:
    """As a sampler that favours likely tokens would answer."""
    _serve(channel, 1.0, 1e-6, 17.0)


def training(channel: Channel, settings: Settings) -> None:
    """Three seconds in turn, two of them sampling, and two with sampling ahead."""
    seconds = 3.0 - float(str(settings["staleness"]))
    channel.mark_baseline()
    held = b"x" * 1_000_000
    made = {"seconds": seconds, "waited_seconds": seconds - 1, "written_tokens": 7.0, "held": float(len(held))}
    serve_steps(channel, made, lambda: made)


def _serve(channel: Channel, seconds: float, gap: float, score: float) -> None:
    channel.mark_baseline()
    held = b"x" * 1_000_000
    serve_steps(
        channel, {"max_logprob_gap": gap, "z_score": score}, lambda: {"seconds": seconds, "held": len(held)}
    )

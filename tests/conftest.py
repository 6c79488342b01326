"""What all tests share: how property tests search for counterexamples."""

from hypothesis import HealthCheck, settings

EASY = settings(deadline=None, suppress_health_check=list(HealthCheck))  # only wrong results fail on a busy machine
settings.register_profile(
    "same", EASY, derandomize=True, database=None
)  # `make test`: the same examples every time
settings.register_profile("search", EASY, max_examples=400)  # `make test-all`: other examples every time
settings.load_profile("same")

"""What all tests share: property tests may be slow on a busy machine; only wrong results fail them."""

from hypothesis import HealthCheck, settings

settings.register_profile("busy", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("busy")

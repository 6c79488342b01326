"""Where agents act: the contract of an environment, kits by name, and the office."""

from upturn.environments.environment import Environment, Info, Step, Verifier
from upturn.environments.kit import EnvironmentKit, resolve_kit

__all__ = ["Environment", "EnvironmentKit", "Info", "Step", "Verifier", "resolve_kit"]

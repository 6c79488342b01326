"""The suite: tasks across the apps of an office, and whoever judges them."""

from upturn.environments.suite.kit import SuiteKit

__all__ = ["SuiteKit"]

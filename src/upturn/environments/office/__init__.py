"""The office: tasks across the apps of one workspace, and whoever judges them."""

from upturn.environments.office.kit import OfficeKit

__all__ = ["OfficeKit"]

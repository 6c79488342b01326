"""Which of several processes does what only one may do. Start with ``lease``."""

from upturn.pool.leases.lease import LEASE_SECONDS, Lease, holding

__all__ = ["LEASE_SECONDS", "Lease", "holding"]

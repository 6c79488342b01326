"""Bookings ``(account, amount)`` in cents; an expense is negative."""

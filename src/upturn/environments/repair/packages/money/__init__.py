"""Sums of money in whole cents."""

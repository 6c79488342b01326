"""Figures of lists of numbers."""

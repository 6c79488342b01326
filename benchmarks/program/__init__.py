"""Measurements of programs as agents: their tokens, their speed, and what is left after them."""

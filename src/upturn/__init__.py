"""Upturn makes AI agents better by letting them work: route, run, judge, remember, train, release."""

__version__ = "0.1.0"

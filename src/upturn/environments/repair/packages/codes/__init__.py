"""Codes and check digits."""

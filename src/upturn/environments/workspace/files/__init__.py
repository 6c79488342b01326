"""Workspaces as real files, and real files as workspaces."""

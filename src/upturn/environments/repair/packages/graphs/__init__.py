"""Directed graphs as dictionaries: node to the list of nodes that follow it."""

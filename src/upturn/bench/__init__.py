"""Measurements against other libraries and against ourselves: what every `upturn bench` command runs."""

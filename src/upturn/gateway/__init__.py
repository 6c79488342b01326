"""The gateway: serves model calls over HTTP.

Here: API keys (``keys``), limits and the waiting line (``limits``, ``admission``), tools that the provider runs
(``provider_tools``), metrics and traces.
"""

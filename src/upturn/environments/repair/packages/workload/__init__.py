"""Work in queues: jobs ``(name, seconds)``."""

"""The commands of ``python -m benchmarks``, one file each, and the options that several of them have."""

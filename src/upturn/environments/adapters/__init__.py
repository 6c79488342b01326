"""Adapters that serve a kit to other projects: Gymnasium, OpenEnv and verifiers.

Each module imports its project, so this file imports none of them. All drive ``upturn.environments.stepwise``. Not
here: other projects' environments as kits. Start with ``gymnasium``.
"""

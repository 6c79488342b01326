"""Code repair: small Python packages with injected bugs, tools to find and repair them, and hidden tests.

Start with ``kit`` (``RepairKit``) and ``environment``. ``packages`` has the sources that tasks are made of, as
data; ``catalogue`` the inputs of their functions; ``mutation`` injects bugs, ``generation`` draws tasks; ``hidden``
runs the hidden tests in a sandbox and compares outside of it. Not here: tasks for programs of any kind
(``upturn.environments.programs``) and the sandbox (``upturn.environments.sandbox``).
"""

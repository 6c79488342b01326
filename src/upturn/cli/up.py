"""``upturn up``: the gateway."""

import os
from pathlib import Path
from typing import Annotated

import typer

from upturn.cli.options import CONFIG_PATH, read_config
from upturn.cli.output import print_message


def up(
    config_path: Annotated[
        Path | None,
        typer.Option(
            "--config", help=f"Path of the configuration file. Default: {CONFIG_PATH} if there is one, else nano."
        ),
    ] = None,
    host: Annotated[str | None, typer.Option(help="Address to bind to. Default: gateway.host.")] = None,
    port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="Port; 0 = any free one. Default: gateway.port.")
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(min=1, max=64, help="Processes that have the clients' connections. Default: gateway.workers."),
    ] = None,
) -> None:
    """Serve agents to any client at one base URL; route, record and learn from every call.

    Without a configuration it serves the shipped model nano as two agents, one sampled and one greedy. At SIGHUP
    it reloads the configuration file.
    """
    from upturn.gateway import (
        Source,
        base_url,
        bind_workers,
        default_config,
        keep_pauses_short,
        open_gateway,
        port_of,
        serve,
        serve_with_workers,
    )

    path = config_path or (CONFIG_PATH if CONFIG_PATH.exists() else None)
    config = default_config() if path is None else read_config(path)
    address = host or config.gateway.host
    wanted = config.gateway.port if port is None else port
    sockets = bind_workers(address, wanted, workers or config.gateway.workers)
    with open_gateway(config, Source(path, os.environ), host=address) as gateway:
        location, key = gateway.service.pool.location, "needed" if gateway.needs_key else "not needed"
        pool = location.absolute() if isinstance(location, Path) else location
        lines = (
            f"gateway at {base_url(address, port_of(sockets[0]))}; stop it with Ctrl-C",
            f"names for `model`: {', '.join(gateway.service.routes.names())}",
            f"pool: {pool}; API key: {key}",
        )
        keep_pauses_short()

        def on_start() -> None:
            print_message("\n".join(lines))

        if len(sockets) == 1:
            serve(gateway.app, sockets[0], on_start)
        else:
            limit = config.gateway.max_body_bytes
            serve_with_workers(gateway.app, sockets, on_start, max_body_bytes=limit)

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
    port: Annotated[int | None, typer.Option(min=0, max=65535, help="Port. Default: gateway.port.")] = None,
    workers: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=64,
            help="Processes that have the clients' connections. Default: gateway.workers.",
        ),
    ] = None,
) -> None:
    """Serve agents to any client at one base URL; route, record and learn from every call.

    Without a configuration it serves the shipped model nano as two agents, one sampled and one greedy. At SIGHUP
    it reloads the configuration file.
    """
    from upturn.gateway import Source, default_config, open_gateway, serve

    path = config_path or (CONFIG_PATH if CONFIG_PATH.exists() else None)
    config = default_config() if path is None else read_config(path)
    address = host or config.gateway.host
    with open_gateway(config, Source(path, os.environ), host=address) as gateway:
        print_message(f"gateway at http://{address}:{port or config.gateway.port}/v1; stop it with Ctrl-C")
        serve(
            gateway.app,
            config.gateway,
            host=address,
            port=config.gateway.port if port is None else port,
            workers=workers or config.gateway.workers,
        )

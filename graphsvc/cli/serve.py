"""``graphsvc serve``: the gRPC service alone, on stores that run already."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Annotated

import typer

from graphsvc import app
from graphsvc.cli.output import StateDirOption
from graphsvc.domain.errors import ErrorReason, FailedPrecondition
from graphsvc.local.endpoints import running_endpoints
from graphsvc.local.service_file import service_path, write_service_file
from graphsvc.settings import load_settings
from graphsvc.telemetry import configure_logging


def serve(
    host: Annotated[str | None, typer.Option(help="Address to listen on; other than loopback needs TLS.")] = None,
    port: Annotated[int | None, typer.Option(min=0, max=65535, help="Port to listen on; 0: a free one.")] = None,
    state_dir: StateDirOption = None,
) -> None:
    """Serve gRPC until Ctrl-C, on the Neo4j and S3 that the settings name.

    Without them, on those of `graphsvc up --without-service` with the same state directory.
    """
    settings = load_settings(grpc_host=host, grpc_port=port, state_dir=state_dir)
    configure_logging(settings.log_level)
    endpoints = running_endpoints(settings.state_dir)
    if endpoints is None and (settings.neo4j_uri is None or settings.s3_endpoint is None):
        missing = "GRAPHSVC_NEO4J_URI" if settings.neo4j_uri is None else "GRAPHSVC_S3_ENDPOINT"
        raise FailedPrecondition(
            ErrorReason.SETTING_INVALID,
            f"no local stack runs on {settings.state_dir}: set {missing}, or run `graphsvc up`, which starts all",
        )

    announced = False

    def ready(running: app.Serving) -> None:
        nonlocal announced
        write_service_file(settings.state_dir, running.target)
        announced = True
        typer.echo(f"gRPC {running.target}; Ctrl-C ends it")

    try:
        asyncio.run(app.serve(settings, endpoints, ready))
    finally:
        if announced:
            with contextlib.suppress(OSError):
                service_path(settings.state_dir).unlink()

"""``graphsvc up``: the local stack and the gRPC service in the foreground, until Ctrl-C."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
import threading
from collections.abc import Generator
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from graphsvc.domain.errors import GraphsvcError
from graphsvc.local.browser import browser_url
from graphsvc.local.endpoints import StackEndpoints
from graphsvc.local.neo4j import password_file
from graphsvc.local.progress import ConsoleProgress
from graphsvc.local.service_file import local_key_path, service_path, write_service_file
from graphsvc.local.stack import LocalStack
from graphsvc.settings import Settings, load_settings
from graphsvc.telemetry import configure_logging

_CHECK_INTERVAL_S = 1.0


def up(
    state_dir: Annotated[
        Path | None, typer.Option(help="Directory of the database, the content and the credentials.")
    ] = None,
    port: Annotated[int | None, typer.Option(min=0, max=65535, help="Port of the gRPC service; 0: a free one.")] = None,
    without_service: Annotated[
        bool, typer.Option("--without-service", help="Start Neo4j and S3 only, without the gRPC service.")
    ] = False,
    cypher: Annotated[
        str | None, typer.Option(help="Cypher statement that the printed Neo4j Browser address opens with.")
    ] = None,
) -> None:
    """Start Neo4j, S3 and the gRPC service, and run them until Ctrl-C.

    The first start fetches Neo4j (195 MB). Data stay in the state directory and are there at the next start.
    """
    console = Console(stderr=True)
    try:
        settings = load_settings(state_dir=state_dir, grpc_port=port)
        with _sigterm_as_interrupt(), ConsoleProgress(console) as progress:
            stack = LocalStack(settings)
            try:
                endpoints = stack.start(progress)
                _print_endpoints(settings, endpoints, cypher)
                if without_service:
                    _wait(stack)
                else:
                    asyncio.run(_serve(settings, stack, endpoints))
            except KeyboardInterrupt:
                pass
            finally:
                progress.say("Stopping")
                stack.stop()
    except GraphsvcError as error:
        console.print(f"{error.reason}: {error.message}", style="red", markup=False, highlight=False, soft_wrap=True)
        raise typer.Exit(1) from error


def _print_endpoints(settings: Settings, endpoints: StackEndpoints, cypher: str | None) -> None:
    """Says where everything is. The password itself is not printed: terminals keep what they show."""
    rows = [("Neo4j", f"{endpoints.neo4j_uri}  (user {endpoints.neo4j_user})")]
    if settings.neo4j_uri is None:
        rows.append(("password", str(password_file(settings.state_dir))))
    if (address := browser_url(endpoints, cypher)) is not None:
        rows.append(("Browser", address))
    rows.append(("S3", endpoints.s3_endpoint))
    for name, value in rows:
        _say(f"{name:<9} {value}")


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def _wait(stack: LocalStack) -> None:
    """Never returns, unless by Ctrl-C or because a server ended."""
    _say("Ctrl-C ends it")
    forever = threading.Event()
    while not forever.wait(_CHECK_INTERVAL_S):
        stack.check()


async def _serve(settings: Settings, stack: LocalStack, endpoints: StackEndpoints) -> None:
    """Returns when the service was told to end, and raises when a server of the stack ended by itself."""
    from graphsvc import app  # the whole service: a second's import that a stack alone never needs

    configure_logging(settings.log_level)
    announcements: list[asyncio.Task[None]] = []

    async def announce(running: app.Serving) -> None:
        await app.ensure_local_key(running.stores, settings.state_dir)
        write_service_file(settings.state_dir, running.target)
        _say(f"{'gRPC':<9} {running.target}")
        _say(f"{'API key':<9} {local_key_path(settings.state_dir)}")
        _say("Ctrl-C ends it")

    def ready(running: app.Serving) -> None:
        announcements.append(asyncio.get_running_loop().create_task(announce(running)))

    serving = asyncio.create_task(app.serve(settings, endpoints, ready))
    watching = asyncio.create_task(_watch(stack, announcements))
    try:
        await asyncio.wait({serving, watching}, return_when=asyncio.FIRST_COMPLETED)
        for task in (watching, serving):
            if task.done():
                task.result()
    finally:
        with contextlib.suppress(OSError):
            service_path(settings.state_dir).unlink()
        for task in (watching, serving, *announcements):
            task.cancel()
        await asyncio.gather(watching, serving, *announcements, return_exceptions=True)


async def _watch(stack: LocalStack, announcements: list[asyncio.Task[None]]) -> None:
    """Raises when a server of the stack has ended, or the announcement failed."""
    while True:
        await asyncio.sleep(_CHECK_INTERVAL_S)
        stack.check()
        for task in announcements:
            if task.done():
                task.result()


@contextlib.contextmanager
def _sigterm_as_interrupt() -> Generator[None]:
    """A context in which SIGTERM is what Ctrl-C is, so that the stack ends in order.

    The service, while it runs, handles both itself.
    """

    def interrupt(_number: int, _frame: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)

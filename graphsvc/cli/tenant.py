"""``graphsvc tenant``: tenants, written to the database directly, by whoever has its password."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Annotated

import typer

from graphsvc.app import GraphStores, open_stores
from graphsvc.cli.output import StateDirOption, run
from graphsvc.domain.content import check_name
from graphsvc.local.endpoints import running_endpoints
from graphsvc.ports import WriteStatus
from graphsvc.settings import load_settings

application = typer.Typer(no_args_is_help=True)


@application.callback()
def tenants() -> None:
    """Create tenants. Nothing crosses tenants."""


@application.command()
def create(
    tenant_id: Annotated[str, typer.Argument(help="The tenant's name, 1 to 256 bytes.")],
    state_dir: StateDirOption = None,
) -> None:
    """Create a tenant; one that exists stays as it is."""
    check_name(tenant_id, "tenant_id")

    async def work() -> WriteStatus:
        async with stores_of(state_dir) as stores:
            return await stores.tenants.create_tenant(tenant_id)

    status = run(work())
    typer.echo(f"tenant {tenant_id} {'created' if status is WriteStatus.CREATED else 'exists already'}")


@contextlib.asynccontextmanager
async def stores_of(state_dir: Path | None) -> AsyncGenerator[GraphStores]:
    """The stores of the database that the settings name, else of the local stack that runs on the state directory.

    Raises:
        FailedPrecondition: GRAPH_UNAVAILABLE, there is neither.
        Unavailable: GRAPH_UNAVAILABLE, it does not answer.
    """
    settings = load_settings(state_dir=state_dir)
    endpoints = running_endpoints(settings.state_dir) if settings.neo4j_uri is None else None
    async with open_stores(settings, endpoints) as stores:
        yield stores

"""``graphsvc key``: API keys, written to the database directly, by whoever has its password."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from graphsvc.cli.output import JsonOption, StateDirOption, out, print_json, run
from graphsvc.cli.tenant import stores_of
from graphsvc.domain.errors import ErrorReason, NotFound
from graphsvc.domain.tenancy import Role
from graphsvc.ports import ApiKey

application = typer.Typer(no_args_is_help=True)

TenantOption = Annotated[str, typer.Option(help="The tenant.")]
_DAY_UNITS = {"h": timedelta(hours=1), "d": timedelta(days=1), "w": timedelta(weeks=1)}


@application.command()
def create(
    tenant: TenantOption,
    agent: Annotated[str, typer.Option(help="The agent that calls with it; made known if it is new.")],
    role: Annotated[
        list[Role] | None, typer.Option(help="What it allows; may be repeated. [default: reader, writer]")
    ] = None,
    expires: Annotated[str | None, typer.Option(help="Lifetime such as 12h, 30d, 8w; unset: it does not end.")] = None,
    state_dir: StateDirOption = None,
) -> None:
    """Create an API key and print it, once: the database keeps only its digest."""
    lifetime = _lifetime(expires) if expires is not None else None

    async def work() -> tuple[ApiKey, str]:
        async with stores_of(state_dir) as stores:
            ends = datetime.now(UTC) + lifetime if lifetime is not None else None
            return await stores.registry.create_key(tenant, agent, frozenset(role or (Role.READER, Role.WRITER)), ends)

    key, text = run(work())
    roles = ", ".join(sorted(role.value for role in key.roles))
    typer.echo(f"key {key.key_id} of agent {agent} in tenant {tenant} ({roles}); it is shown only now:", err=True)
    typer.echo(text)


@application.command("list")
def list_command(tenant: TenantOption, as_json: JsonOption = False, state_dir: StateDirOption = None) -> None:
    """List a tenant's keys that hold, without their secrets."""

    async def work() -> tuple[ApiKey, ...]:
        async with stores_of(state_dir) as stores:
            return await stores.tenants.list_keys(tenant)

    keys = run(work())
    if as_json:
        print_json(keys)
        return
    table = Table("key", "agent", "roles", "created", "expires", box=None, pad_edge=False)
    for key in keys:
        expires = f"{key.expires_time:%Y-%m-%d %H:%M}" if key.expires_time else "never"
        roles = ", ".join(sorted(role.value for role in key.roles))
        table.add_row(key.key_id, escape(key.agent_id), roles, f"{key.created_time:%Y-%m-%d %H:%M}", expires)
    out().print(table if keys else f"no keys in tenant {tenant}", markup=False, highlight=False)


@application.command()
def revoke(
    key_id: Annotated[str, typer.Argument(help="The key's id, as listed.")],
    tenant: TenantOption,
    state_dir: StateDirOption = None,
) -> None:
    """End a key at once, in every process."""

    async def work() -> bool:
        async with stores_of(state_dir) as stores:
            return await stores.tenants.revoke_key(tenant, key_id)

    if not run(work()):
        raise NotFound(
            ErrorReason.KEY_NOT_FOUND, f"tenant {tenant} has no key {key_id}: `graphsvc key list` shows them"
        )
    typer.echo(f"key {key_id} is revoked")


def _lifetime(text: str) -> timedelta:
    found = re.fullmatch(r"(\d{1,5})([hdw])", text.strip())
    if found is None or int(found[1]) == 0:
        raise typer.BadParameter(f"--expires {text}: give a number and h, d or w, such as 30d")
    return int(found[1]) * _DAY_UNITS[found[2]]

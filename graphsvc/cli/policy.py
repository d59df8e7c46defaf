"""``graphsvc policy``: who may see which units of whom, within a tenant."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from graphsvc.cli.output import (
    ApiKeyOption,
    CertificatesOption,
    ClientOptions,
    JsonOption,
    StateDirOption,
    TargetOption,
    TlsOption,
    client_for,
    out,
    print_json,
    run,
)
from graphsvc.client import PolicyInfo
from graphsvc.domain.units import ContextUnitKind

application = typer.Typer(no_args_is_help=True)


@application.command()
def create(
    owner_agent: Annotated[str, typer.Option(help="Whose units; unset: your own; *: every agent's (role admin).")] = "",
    owner_session: Annotated[str, typer.Option(help="Units of this session; unset: of every session.")] = "",
    grantee_agent: Annotated[str, typer.Option(help="Who may see them; unset: every agent of the tenant.")] = "",
    grantee_session: Annotated[str, typer.Option(help="In this session; unset: in every session.")] = "",
    kind: Annotated[
        list[ContextUnitKind] | None,
        typer.Option(help="Which kinds; may be repeated. [default: decision, constraint]"),
    ] = None,
    expires: Annotated[datetime | None, typer.Option(help="From when it no longer holds, UTC; unset: never.")] = None,
    as_json: JsonOption = False,
    target: TargetOption = None,
    api_key: ApiKeyOption = None,
    state_dir: StateDirOption = None,
    certificates: CertificatesOption = None,
    tls: TlsOption = False,
) -> None:
    """Share your units with other agents or sessions of your tenant."""
    options = ClientOptions(target, api_key, state_dir, certificates, tls)

    async def work() -> PolicyInfo:
        async with client_for(options) as client:
            return await client.create_policy(
                owner_agent_id=owner_agent,
                owner_session_id=owner_session,
                grantee_agent_id=grantee_agent,
                grantee_session_id=grantee_session,
                kinds=kind or (),
                expires_time=expires.replace(tzinfo=UTC) if expires is not None else None,
            )

    policy = run(work())
    if as_json:
        print_json(policy)
    else:
        typer.echo(f"policy {policy.policy_id} created")


@application.command("list")
def list_command(
    as_json: JsonOption = False,
    target: TargetOption = None,
    api_key: ApiKeyOption = None,
    state_dir: StateDirOption = None,
    certificates: CertificatesOption = None,
    tls: TlsOption = False,
) -> None:
    """List the policies that you own or that grant you something (role admin: all of the tenant)."""
    options = ClientOptions(target, api_key, state_dir, certificates, tls)

    async def work() -> list[PolicyInfo]:
        async with client_for(options) as client:
            return [policy async for policy in client.list_policies()]

    policies = run(work())
    if as_json:
        print_json(policies)
        return
    table = Table("policy", "owner", "session", "grantee", "session", "kinds", "expires", box=None, pad_edge=False)
    for policy in policies:
        table.add_row(
            policy.policy_id,
            escape(policy.owner_agent_id),
            escape(policy.owner_session_id or "any"),
            escape(policy.grantee_agent_id or "any"),
            escape(policy.grantee_session_id or "any"),
            "all" if len(policy.kinds) == len(ContextUnitKind) else ", ".join(sorted(k.value for k in policy.kinds)),
            f"{policy.expires_time:%Y-%m-%d %H:%M}" if policy.expires_time else "never",
        )
    out().print(table if policies else "no policies", markup=False, highlight=False)


@application.command()
def delete(
    policy_id: Annotated[str, typer.Argument(help="The policy's id, as listed.")],
    target: TargetOption = None,
    api_key: ApiKeyOption = None,
    state_dir: StateDirOption = None,
    certificates: CertificatesOption = None,
    tls: TlsOption = False,
) -> None:
    """End a policy of your own at once (role admin: any of the tenant)."""
    options = ClientOptions(target, api_key, state_dir, certificates, tls)

    async def work() -> None:
        async with client_for(options) as client:
            await client.delete_policy(policy_id)

    run(work())
    typer.echo(f"policy {policy_id} deleted")

"""``graphsvc retrieve``: the context worth its tokens, and why."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

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
    print_retrieval,
    run,
)
from graphsvc.client import Retrieval
from graphsvc.domain.units import ContextUnitKind, EdgeType
from graphsvc.ingest.git import source_name


def retrieve(
    question: Annotated[str, typer.Argument(help="What is wanted, in words; needed unless --task or --anchor.")] = "",
    budget: Annotated[int | None, typer.Option(min=0, help="Tokens to inject at most. [default: 2000]")] = None,
    step_budget: Annotated[
        int | None, typer.Option(min=1, help="Tokens of the whole step, instead of --budget; a reserve is kept.")
    ] = None,
    overhead: Annotated[int, typer.Option(min=0, help="With --step-budget: tokens that are sent besides.")] = 0,
    task: Annotated[str, typer.Option(help="Task to start from.")] = "",
    anchor: Annotated[list[str] | None, typer.Option(help="Unit id to start from; may be repeated.")] = None,
    session: Annotated[
        str | None, typer.Option(help="Session to work in; unset: the one `ingest git .` writes into here.")
    ] = None,
    step: Annotated[int, typer.Option(min=0, help="Step in the session.")] = 0,
    model: Annotated[str, typer.Option(help="Model the payload is for; decides how tokens are counted.")] = "",
    kind: Annotated[list[ContextUnitKind] | None, typer.Option(help="Only these kinds; may be repeated.")] = None,
    edge: Annotated[list[EdgeType] | None, typer.Option(help="Follow only these edge types; may be repeated.")] = None,
    hops: Annotated[int, typer.Option(min=1, max=4, help="Edges from an anchor at most.")] = 3,
    as_of: Annotated[
        datetime | None, typer.Option(help="The graph as of this time in UTC, such as 2026-11-01T12:00:00.")
    ] = None,
    explain: Annotated[bool, typer.Option("--explain", help="Show what each feature contributed.")] = False,
    rows: Annotated[int, typer.Option(min=0, help="Candidates to list at most; selected ones always are.")] = 25,
    payload: Annotated[bool, typer.Option("--payload", help="Print the payload and nothing else.")] = False,
    as_json: JsonOption = False,
    target: TargetOption = None,
    api_key: ApiKeyOption = None,
    state_dir: StateDirOption = None,
    certificates: CertificatesOption = None,
    tls: TlsOption = False,
) -> None:
    """Select, within a token budget, the units that are worth their tokens, and say why.

    Prints every candidate by rank with distance, edge types of its path, scores, value and cost, what became of it
    and why; then where the tokens went, and the payload as a model would get it.
    """
    if budget is not None and step_budget is not None:
        raise typer.BadParameter("give --budget or --step-budget, not both")
    if not question and not task and not anchor:
        raise typer.BadParameter("a question, --task or --anchor is needed")
    options = ClientOptions(target, api_key, state_dir, certificates, tls)

    async def work() -> Retrieval:
        async with client_for(options) as client:
            scope = client.session(session or f"repo:{source_name(Path.cwd())}", model=model)
            return await scope.retrieve(
                question,
                total_step_budget=step_budget,
                retrieval_budget=(2000 if budget is None else budget) if step_budget is None else None,
                harness_overhead=overhead,
                task_step=step,
                task_id=task,
                anchor_unit_ids=anchor or (),
                follow=edge or (),
                max_hops=hops,
                kinds=kind or (),
                as_of=as_of.replace(tzinfo=UTC) if as_of is not None else None,
            )

    answer = run(work())
    if as_json:
        print_json(answer)
    elif payload:
        typer.echo(answer.payload, nl=not answer.payload.endswith("\n"))
    else:
        print_retrieval(answer, out(), max_rows=rows, with_payload=True, with_contributions=explain)

"""``graphsvc report-outcome``: what a model made of a retrieval."""

from __future__ import annotations

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
    print_outcome,
    run,
)
from graphsvc.client import ReportedOutcome
from graphsvc.ingest.git import source_name


def report_outcome(
    retrieval_id: Annotated[str, typer.Argument(help="Id that the retrieval printed.")],
    output: Annotated[
        typer.FileText | None,
        typer.Option(help="File with the model's output, - for standard input.", encoding="utf-8", errors="replace"),
    ] = None,
    cited: Annotated[list[str] | None, typer.Option(help="Unit id known to be cited; may be repeated.")] = None,
    decisive: Annotated[
        list[str] | None, typer.Option(help="Id of a unit that changed the decision; may be repeated.")
    ] = None,
    session: Annotated[
        str | None, typer.Option(help="Session that retrieved; unset: the one `ingest git .` writes into here.")
    ] = None,
    as_json: JsonOption = False,
    target: TargetOption = None,
    api_key: ApiKeyOption = None,
    state_dir: StateDirOption = None,
    certificates: CertificatesOption = None,
    tls: TlsOption = False,
) -> None:
    """Record which units of a retrieval the model's output referenced, and which it ignored.

    Prints the verdict on each delivered unit and how it was found. The same report again changes nothing.
    """
    if output is None and not cited and not decisive:
        raise typer.BadParameter("--output, --cited or --decisive is needed")
    options = ClientOptions(target, api_key, state_dir, certificates, tls)
    text = "" if output is None else output.read()

    async def work() -> ReportedOutcome:
        async with client_for(options) as client:
            return await client.report_outcome(
                session or f"repo:{source_name(Path.cwd())}",
                retrieval_id,
                text,
                cited_unit_ids=cited or (),
                decisive_unit_ids=decisive or (),
            )

    reported = run(work())
    if as_json:
        print_json(reported)
    else:
        print_outcome(reported, out())

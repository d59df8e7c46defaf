"""``graphsvc explain``: what a past retrieval decided."""

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
    print_explanation,
    print_json,
    run,
)
from graphsvc.client import Explanation
from graphsvc.ingest.git import source_name


def explain(
    retrieval_id: Annotated[str, typer.Argument(help="Id that the retrieval printed.")],
    session: Annotated[
        str | None, typer.Option(help="Session that retrieved; unset: the one `ingest git .` writes into here.")
    ] = None,
    rows: Annotated[int, typer.Option(min=0, help="Candidates to list at most; selected ones always are.")] = 25,
    as_json: JsonOption = False,
    target: TargetOption = None,
    api_key: ApiKeyOption = None,
    state_dir: StateDirOption = None,
    certificates: CertificatesOption = None,
    tls: TlsOption = False,
) -> None:
    """Show what a retrieval decided about every candidate, with every feature's contribution to its value."""
    options = ClientOptions(target, api_key, state_dir, certificates, tls)

    async def work() -> Explanation:
        async with client_for(options) as client:
            return await client.explain(session or f"repo:{source_name(Path.cwd())}", retrieval_id)

    explanation = run(work())
    if as_json:
        print_json(explanation)
    else:
        print_explanation(explanation, out(), max_rows=rows)

"""What commands share: finding the service, running calls, and printing what a retrieval decided."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Coroutine, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, TypeVar, cast

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from graphsvc.client import (
    Explanation,
    GraphsvcCallError,
    GraphsvcClient,
    RankedUnit,
    ReportedOutcome,
    Retrieval,
    Spending,
    Tls,
)
from graphsvc.domain.candidates import Disposition
from graphsvc.domain.errors import ErrorReason, InvalidArgument, LocalFault, Unauthenticated
from graphsvc.settings import Settings, load_settings

T = TypeVar("T")

TargetOption = Annotated[
    str | None, typer.Option("--target", help="host:port of the service; unset: the one that runs on this machine.")
]
ApiKeyOption = Annotated[
    str | None, typer.Option("--api-key", help="API key; better in GRAPHSVC_API_KEY, which no process list shows.")
]
StateDirOption = Annotated[
    Path | None, typer.Option("--state-dir", help="State directory of the local stack; unset: GRAPHSVC_STATE_DIR.")
]
CertificatesOption = Annotated[
    Path | None, typer.Option("--ca", help="PEM file with the certificates that sign the service's; turns TLS on.")
]
TlsOption = Annotated[bool, typer.Option("--tls", help="Connect with TLS, trusting the system's certificates.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]

DESCRIBED_ROWS = 25
"""Candidates a table shows; every selected one is shown."""
_PLAIN_WIDTH = 150
"""Columns where standard output is no terminal."""
_SHORT_EDGES = {"dependency": "dep", "provenance": "prov", "supersession": "super", "causation": "cause"}


@dataclass(frozen=True, slots=True)
class ClientOptions:
    """How a command was told to reach the service; None: not told."""

    target: str | None = None
    api_key: str | None = None
    state_dir: Path | None = None
    certificates: Path | None = None
    tls: bool = False


def client_for(options: ClientOptions) -> GraphsvcClient:
    """A client of the service that the options, the settings or the local stack name, in that order.

    The local stack's own API key is sent to the local stack only.

    Raises:
        NotFound: GRAPH_UNAVAILABLE, no service is named and none runs on the state directory.
        Unauthenticated: CREDENTIALS_MISSING.
        InvalidArgument: SETTING_INVALID.
    """
    settings = load_settings(state_dir=options.state_dir, target=options.target)
    target = settings.target or _local_target(settings)
    api_key = options.api_key or (settings.api_key.get_secret_value() if settings.api_key else "")
    if not api_key and settings.target is None:
        api_key = _local_api_key(settings)
    if not api_key:
        raise Unauthenticated(
            ErrorReason.CREDENTIALS_MISSING,
            f"no API key for {target}: set GRAPHSVC_API_KEY; `graphsvc key create` makes one",
        )
    tls = Tls(_read_certificates(options.certificates)) if options.tls or options.certificates else None
    return GraphsvcClient(target, api_key=api_key, tls=tls)


def run(work: Coroutine[Any, Any, T]) -> T:
    """The result of the coroutine; after Ctrl-C the command exits with 130.

    Raises:
        LocalFault: GRAPH_UNAVAILABLE, nothing answers at the service's address.
    """
    try:
        return asyncio.run(work)
    except KeyboardInterrupt:
        typer.echo("graphsvc: stopped", err=True)
        raise typer.Exit(130) from None
    except GraphsvcCallError as error:
        if error.code == "UNAVAILABLE" and not error.reason:
            raise LocalFault(
                ErrorReason.GRAPH_UNAVAILABLE,
                f"the service does not answer: {error.message}; is `graphsvc up` running?",
            ) from error
        raise


def out() -> Console:
    """Standard output; wide where it is no terminal, so that tables keep their columns in a file."""
    console = Console()
    return console if console.is_terminal else Console(width=_PLAIN_WIDTH)


def print_json(value: object) -> None:
    """Prints a dataclass, or a sequence of them, as indented JSON."""
    many = cast("Sequence[Any]", value) if isinstance(value, list | tuple) else None
    plain = [asdict(one) for one in many] if many is not None else asdict(cast("Any", value))
    typer.echo(json.dumps(plain, indent=2, ensure_ascii=False, default=_json_value))


def print_retrieval(
    answer: Retrieval,
    console: Console,
    *,
    max_rows: int = DESCRIBED_ROWS,
    with_payload: bool = False,
    with_contributions: bool = False,
) -> None:
    """Prints the ranked table of a retrieval and where the tokens went.

    Args:
        answer: of the service.
        console: where to.
        max_rows: candidates described; every selected one is.
        with_payload: print the payload as rendered, too.
        with_contributions: print what each feature contributed, too.
    """
    strategy = answer.strategy.replace("_", " ")
    title = f"retrieval {answer.retrieval_id}: {strategy}, {answer.candidate_count} candidates"
    took = f", {answer.duration_ms:.0f} ms" + (", partial: a limit cut the search" if answer.partial else "")
    console.print(Text(title + took, style="bold"))
    if answer.candidates:
        console.print(_ranking(answer.candidates, max(answer.candidate_count, len(answer.candidates)), max_rows))
    if with_contributions and answer.candidates:
        console.print(_contributions(answer.candidates, max_rows))
    console.print(Text(f"{answer.outcome.value.replace('_', ' ')}: {answer.outcome_detail}".rstrip(": ")))
    for notice in answer.notices:
        console.print(Text(f"note: {notice}", style="yellow"))
    _print_spending(answer.ledger, console, answer.encoding)
    if with_payload and answer.payload:
        console.rule(Text("payload"), align="left", style="dim")
        console.print(answer.payload, markup=False, highlight=False, soft_wrap=True)
        console.rule(style="dim")


def print_explanation(explanation: Explanation, console: Console, *, max_rows: int = DESCRIBED_ROWS) -> None:
    """Prints what a past retrieval decided, with every feature's contribution.

    Args:
        explanation: of the service.
        console: where to.
        max_rows: candidates described; every selected one is.
    """
    when = f"{explanation.created_time:%Y-%m-%d %H:%M:%S} UTC"
    asked = f'"{explanation.query}"' if explanation.query else f"task {explanation.task_id}"
    console.print(Text(f"retrieval {explanation.retrieval_id} of {when}: {asked}", style="bold"))
    if explanation.candidates:
        console.print(_ranking(explanation.candidates, len(explanation.candidates), max_rows))
        console.print(_contributions(explanation.candidates, max_rows))
    console.print(Text(explanation.outcome.value.replace("_", " ")))
    _print_spending(explanation.ledger, console, "")


def print_outcome(reported: ReportedOutcome, console: Console) -> None:
    """Prints the verdict on each delivered unit.

    Args:
        reported: of the service.
        console: where to.
    """
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("unit", "verdict", "how"):
        table.add_column(name, overflow="fold")
    for one in reported.outcomes:
        verdict = "referenced" if one.referenced else "ignored"
        table.add_row(one.unit_id, verdict, escape(one.evidence), style="green" if one.referenced else "")
    if reported.outcomes:
        console.print(table)
    counted = f"{len(reported.referenced_ids)} of {len(reported.outcomes)} units referenced"
    console.print(Text(counted + (", as reported before" if reported.replayed else "")))


def unit_label(unit_key: str, path: str, unit_id: str) -> str:
    """A short name for a person: the path and definition of a chunk, the commit, else the writer's key."""
    if path:
        found = re.search(r"#0*(\d+):(.*)$", unit_key) if unit_key.startswith("chunk:") else None
        return f"{path} {found[2] or '#' + found[1]}" if found else path
    if unit_key.startswith("commit:"):
        return f"commit {unit_key[7:19]}"
    return unit_key or unit_id


def _shown(candidates: Sequence[RankedUnit], max_rows: int) -> list[RankedUnit]:
    return [
        one for number, one in enumerate(candidates) if number < max_rows or one.disposition is Disposition.SELECTED
    ]


def _ranking(candidates: Sequence[RankedUnit], total: int, max_rows: int) -> Table:
    shown = _shown(candidates, max_rows)
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("#", justify="right")
    table.add_column("id", no_wrap=True)
    table.add_column("unit", overflow="fold", ratio=5)
    table.add_column("kind", no_wrap=True)
    table.add_column("distance", no_wrap=True)
    for name in ("match", "topic", "value", "cost", "value/1k"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("decision", overflow="fold", ratio=4)
    for one in shown:
        path = one.graph_path
        table.add_row(
            str(one.rank),
            one.unit_id,
            escape(unit_label(one.unit_key, one.path, one.unit_id)),
            one.kind.value,
            _distance(one),
            "" if path is None else f"{path.edge_type_match:.2f}",
            f"{one.topic_score:.2f}",
            f"{one.value:.3f}",
            str(one.cost),
            f"{one.value_cost_ratio * 1000:.2f}",
            escape(_decision(one)),
            style="green" if one.disposition is Disposition.SELECTED else "",
        )
    if total > len(shown):
        table.caption = f"and {total - len(shown)} more"
        table.caption_justify = "left"
    return table


def _distance(one: RankedUnit) -> str:
    path = one.graph_path
    if path is None:
        return "none"
    types = " ".join(_SHORT_EDGES[edge_type.value] for edge_type in path.edge_types)
    return f"{path.hop_count} {types}".rstrip()


def _decision(one: RankedUnit) -> str:
    """What became of it and, where it was not delivered, why; why a selected one was is in the other columns."""
    word = one.disposition.value.replace("_", " ")
    detail = "" if one.disposition is Disposition.SELECTED else one.detail.strip()
    return detail if detail.lower().startswith(word) else f"{word}: {detail}".rstrip(": ")


def _contributions(candidates: Sequence[RankedUnit], max_rows: int) -> Table:
    shown = _shown(candidates, max_rows)
    # A feature that says nothing about any of them takes no column.
    names = list(dict.fromkeys(part.feature for one in shown for part in one.contributions if part.logit))
    intercept = f" (intercept {shown[0].intercept:+.2f})" if shown else ""
    table = Table(title=f"logit of the value by feature{intercept}", title_justify="left", box=None, pad_edge=False)
    table.add_column("#", justify="right")
    table.add_column("unit", overflow="fold")
    for name in names:
        table.add_column(name.replace("_", " "), justify="right")
    for one in shown:
        logits = {part.feature: part.logit for part in one.contributions}
        cells = (f"{logits[name]:+.2f}" if name in logits else "" for name in names)
        label = escape(unit_label(one.unit_key, one.path, one.unit_id))
        table.add_row(str(one.rank), label, *cells)
    return table


def _print_spending(ledger: Spending, console: Console, encoding: str) -> None:
    if ledger.total_step_budget:
        console.print(
            Text(
                f"step {ledger.total_step_budget} tokens - overhead {ledger.harness_overhead}"
                f" - reasoning reserve {ledger.reasoning_reserve} = retrieval budget {ledger.retrieval_budget}"
            )
        )
    counted = f", counted with {encoding}" if encoding else ""
    console.print(
        Text(
            f"{ledger.tokens_spent} of {ledger.retrieval_budget} tokens spent, {ledger.ranking_charge} charged for "
            f"ranking, {ledger.budget_remaining} left{counted}; {ledger.candidates_selected} units selected, "
            f"{ledger.candidates_deferred} not"
        )
    )


def _local_target(settings: Settings) -> str:
    from graphsvc.local.service_file import read_service_target

    return read_service_target(settings.state_dir)


def _local_api_key(settings: Settings) -> str:
    from graphsvc.local.service_file import local_key_path

    path = local_key_path(settings.state_dir)
    try:
        return path.read_text().strip()
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise Unauthenticated(
            ErrorReason.CREDENTIALS_MISSING, f"the API key in {path} cannot be read ({error.strerror})"
        ) from error


def _read_certificates(path: Path | None) -> bytes | None:
    if path is None:
        return None
    try:
        return path.read_bytes()
    except OSError as error:
        raise InvalidArgument(ErrorReason.SETTING_INVALID, f"--ca {path}: {error.strerror}") from error


def _json_value(value: object) -> object:
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, frozenset | set):
        return sorted(str(one) for one in cast("frozenset[object]", value))
    raise TypeError(f"no JSON for {type(value).__name__}")

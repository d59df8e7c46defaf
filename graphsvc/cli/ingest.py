"""``graphsvc ingest``: a git repository or a folder of Markdown becomes units with typed edges."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

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
from graphsvc.client import GraphsvcClient
from graphsvc.domain.content import check_name
from graphsvc.ingest.git import Source, read_source
from graphsvc.ingest.markdown import plan_documents, read_documents
from graphsvc.ingest.plan import Plan, plan_source, utc_now
from graphsvc.ingest.writer import IngestProgress, KnownSession, Summary, read_known, share_session, write_plan

application = typer.Typer(no_args_is_help=True)

_LINE_INTERVAL_S = 5.0

SessionOption = Annotated[str | None, typer.Option(help="Session to write into; unset: repo:NAME or docs:NAME.")]
ShareOption = Annotated[
    bool, typer.Option("--share", help="Share the session, all kinds of units, with every agent of the tenant.")
]
QuietOption = Annotated[bool, typer.Option("--quiet", help="Print no progress.")]


@application.command("git")
def git_command(
    path: Annotated[Path, typer.Argument(help="A work tree, a bare repository, or a folder of files.")],
    session: SessionOption = None,
    commits: Annotated[int, typer.Option(min=0, max=100_000, help="Newest commits to read.")] = 200,
    versions: Annotated[int, typer.Option(min=1, max=1000, help="Newest versions of one file to add.")] = 5,
    share: ShareOption = False,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
    target: TargetOption = None,
    api_key: ApiKeyOption = None,
    state_dir: StateDirOption = None,
    certificates: CertificatesOption = None,
    tls: TlsOption = False,
) -> None:
    """Write a repository at HEAD, with its history, as units; run it again after new commits.

    Files and their chunks become state snapshots, commits decisions; imports, tests and links become dependencies,
    newer versions supersede older ones, commits cause versions. Twice changes nothing; what Ctrl-C broke off is
    continued by the next run.
    """
    _ingest(
        ClientOptions(target, api_key, state_dir, certificates, tls),
        partial(read_source, path, commits),
        partial(plan_source, versions_per_file=versions),
        session=session,
        prefix="repo",
        share=share,
        progress=_progress(quiet or as_json),
        as_json=as_json,
    )


@application.command("markdown")
def markdown_command(
    path: Annotated[Path, typer.Argument(help="A folder; its .md and .markdown files are read.")],
    session: SessionOption = None,
    share: ShareOption = False,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
    target: TargetOption = None,
    api_key: ApiKeyOption = None,
    state_dir: StateDirOption = None,
    certificates: CertificatesOption = None,
    tls: TlsOption = False,
) -> None:
    """Write the Markdown documents of a folder as observations, one unit a section, with the links between them."""
    _ingest(
        ClientOptions(target, api_key, state_dir, certificates, tls),
        partial(read_documents, path),
        plan_documents,
        session=session,
        prefix="docs",
        share=share,
        progress=_progress(quiet or as_json),
        as_json=as_json,
    )


async def ingest_git(
    client: GraphsvcClient,
    path: Path,
    *,
    console: Console,
    session_id: str = "",
    commits: int = 200,
    versions: int = 5,
    share: bool = False,
) -> str:
    """The session that holds the repository; what was done is printed.

    Args:
        client: with the role writer.
        path: a work tree, a bare repository, or a folder of files.
        console: for progress and summary.
        session_id: to write into; empty: "repo:" and the repository's name.
        commits: newest commits to read.
        versions: newest versions of one file to add.
        share: share the session with every agent of the tenant.

    Raises:
        GraphsvcError: INGEST_FAILED.
        GraphsvcCallError: the service refuses or does not answer.
    """
    session_id, summary = await _write(
        client,
        await asyncio.to_thread(read_source, path, commits),
        partial(plan_source, versions_per_file=versions),
        session_id=session_id,
        prefix="repo",
        progress=ConsoleIngestProgress(console),
    )
    print_summary(session_id, summary, console)
    if share:
        await share_session(client, session_id)
    return session_id


async def _write(
    client: GraphsvcClient,
    source: Source,
    plan: Callable[..., Plan],
    *,
    session_id: str,
    prefix: str,
    progress: IngestProgress,
) -> tuple[str, Summary]:
    began = time.monotonic()
    session_id = check_name(session_id or f"{prefix}:{source.name}", "--session")
    for notice in source.notices:
        progress.say(notice)
    progress.say(f"{source.name}: {len(source.files)} files, {len(source.commits)} commits read")
    known = await read_known(client, session_id)
    # Seconds of work for a large repository: the connection is kept alive meanwhile.
    made = await asyncio.to_thread(_planned, plan, source, known)
    summary = await write_plan(client, session_id, made, known, progress)
    return session_id, replace(summary, seconds=time.monotonic() - began)


def _planned(plan: Callable[..., Plan], source: Source, known: KnownSession) -> Plan:
    return plan(source, known.units, now=utc_now())


def _ingest(
    options: ClientOptions,
    read: Callable[[], Source],
    plan: Callable[..., Plan],
    *,
    session: str | None,
    prefix: str,
    share: bool,
    progress: IngestProgress,
    as_json: bool,
) -> None:
    async def work() -> tuple[str, Summary, bool]:
        source = await asyncio.to_thread(read)
        async with client_for(options) as client:
            session_id, summary = await _write(
                client, source, plan, session_id=session or "", prefix=prefix, progress=progress
            )
            return session_id, summary, share and await share_session(client, session_id)

    session_id, summary, shared = run(work())
    if as_json:
        print_json(summary)
        return
    print_summary(session_id, summary, out())
    if share:
        out().print(f"shared with every agent of the tenant{'' if shared else ' already'}", highlight=False)


def print_summary(session_id: str, summary: Summary, console: Console) -> None:
    """Prints what an ingest did."""

    def line(text: str) -> None:
        console.print(text, markup=False, highlight=False, soft_wrap=True)

    counts = ", ".join(f"{count} {name}" for name, count in summary.counts.items())
    line(f"session {session_id}: {counts}")
    rate = f", {summary.units_per_second:.0f} units/s" if summary.created else ""
    line(f"units   {summary.created} created, {summary.existing} there already, {summary.seconds:.1f} s{rate}")
    edges = ", ".join(f"{count} {name}" for name, count in summary.edges.items())
    line(f"edges   {sum(summary.edges.values())} created{': ' + edges if edges else ''}")
    skipped = ", ".join(f"{count} {reason}" for reason, count in summary.skipped.items())
    line(f"skipped {sum(summary.skipped.values())} files{': ' + skipped if skipped else ''}")


class ConsoleIngestProgress(IngestProgress):
    """Progress on a console: a bar on a terminal, else a line every few seconds."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(stderr=True)
        self._bar: Progress | None = None
        self._task: TaskID | None = None
        self._total = self._done = 0
        self._last_line = 0.0

    def say(self, message: str) -> None:
        """Prints a sentence."""
        self._console.print(message, markup=False, highlight=False, soft_wrap=True)

    def started(self, total: int) -> None:
        """Shows the bar on a terminal."""
        self._total, self._done = total, 0
        self._last_line = time.monotonic()
        if total and self._console.is_terminal:
            self._bar = Progress(
                TextColumn("Writing units"),
                BarColumn(),
                MofNCompleteColumn(),
                TimeRemainingColumn(),
                console=self._console,
                transient=True,
            )
            self._task = self._bar.add_task("units", total=total)
            self._bar.start()

    def advanced(self, count: int) -> None:
        """Moves the bar, or prints a line every few seconds."""
        self._done += count
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, completed=self._done)
        elif time.monotonic() - self._last_line >= _LINE_INTERVAL_S:
            self._last_line = time.monotonic()
            self.say(f"  {self._done} of {self._total} units written")

    def ended(self) -> None:
        """Takes the bar off the terminal."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None


def _progress(quiet: bool) -> IngestProgress:
    return IngestProgress() if quiet else ConsoleIngestProgress()

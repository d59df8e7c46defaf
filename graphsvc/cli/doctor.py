"""``graphsvc doctor``: is everything as it must be, and if not, what to do."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from graphsvc.domain.errors import GraphsvcError
from graphsvc.local.endpoints import StackEndpoints, running_endpoints
from graphsvc.local.progress import ConsoleProgress
from graphsvc.local.stack import LocalStack
from graphsvc.settings import Settings, load_settings

_STYLES = {"OK": "green", "WARN": "yellow", "FAIL": "bold red", "SKIPPED": "dim"}


def doctor(
    state_dir: Annotated[Path | None, typer.Option(help="State directory of the local stack to check.")] = None,
    start: Annotated[
        bool, typer.Option("--start", help="Start the local stack for the checks if it does not run.")
    ] = False,
) -> None:
    """Check Java, Neo4j, the indexes, LMDB, S3, the clock and the tokenizers, and say what to do about each fault.

    Checks the local stack of the state directory, or the Neo4j and S3 that the GRAPHSVC_ variables name. Exits with 1
    when a check fails.
    """
    errors = Console(stderr=True)
    try:
        settings = load_settings(state_dir=state_dir)
        with contextlib.ExitStack() as exits:
            endpoints = running_endpoints(settings.state_dir)
            if endpoints is None and start and (settings.neo4j_uri is None or settings.s3_endpoint is None):
                stack = LocalStack(settings)
                exits.callback(stack.stop)
                endpoints = stack.start(exits.enter_context(ConsoleProgress(errors)))
            failed = asyncio.run(_report(settings, endpoints))
    except KeyboardInterrupt:
        raise typer.Exit(130) from None
    except GraphsvcError as error:
        errors.print(f"{error.reason}: {error.message}", style="red", markup=False, highlight=False, soft_wrap=True)
        raise typer.Exit(1) from error
    if failed:
        raise typer.Exit(1)


async def _report(settings: Settings, endpoints: StackEndpoints | None) -> int:
    """How many checks failed; prints each finding as it comes."""
    from graphsvc.doctor import Outcome, examine  # the whole service: `--help` does without it

    console = Console()
    failed = 0
    async for finding in examine(settings, endpoints):
        line = Text()
        line.append(f"{finding.outcome:<8}", style=_STYLES[finding.outcome])
        line.append(f"{finding.name:<21} {finding.found}")
        console.print(line, soft_wrap=True, highlight=False)
        if finding.advice:
            console.print(Text(f"{'':<8}{'':<21} → {finding.advice}"), soft_wrap=True, highlight=False)
        failed += finding.outcome is Outcome.FAIL
    return failed

"""``graphsvc demo``: the main job on real parts, from nothing to a rendered payload, and everything stopped again."""

from __future__ import annotations

import asyncio
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from graphsvc.local.service_file import write_service_file
from graphsvc.settings import Settings, load_settings

if TYPE_CHECKING:
    from rich.console import Console

    from graphsvc.app import Serving
    from graphsvc.client import Retrieval
    from graphsvc.local.endpoints import StackEndpoints

ASKING_AGENT = "demo-asker"
ASKING_SESSION = "demo"
MODEL = "gpt-5"
SHOWN_ROWS = 12
DEMO_QUERY_TIMEOUT_MS = 5000
"""A Neo4j that started seconds ago still compiles what it runs; on a busy machine 300 ms are not enough."""


@dataclass(frozen=True, slots=True)
class Question:
    """A question about this repository.

    Attributes:
        retrieval_budget: tokens.
        files: where the answer is; at least one of them must be selected.
    """

    text: str
    retrieval_budget: int
    files: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Answered:
    """A question and what was retrieved for it."""

    question: Question
    retrieval: Retrieval

    @property
    def selected_files(self) -> tuple[str, ...]:
        """The right files that were selected."""
        chosen = {unit.path for unit in self.retrieval.units}
        return tuple(name for name in self.question.files if name in chosen)


def load_questions() -> tuple[Question, ...]:
    """The demo's questions."""
    text = files("graphsvc.cli").joinpath("demo_questions.toml").read_text(encoding="utf-8")
    rows: list[dict[str, Any]] = tomllib.loads(text)["question"]
    return tuple(Question(row["text"], row["retrieval_budget"], tuple(row["files"])) for row in rows)


def demo(
    repository: Annotated[
        Path, typer.Argument(help="Repository to ingest; a folder without history works too.")
    ] = Path(),
    state_dir: Annotated[
        Path | None, typer.Option(help="Directory of the database, the content and the credentials.")
    ] = None,
    keep: Annotated[bool, typer.Option("--keep", help="Leave everything running until Ctrl-C.")] = False,
) -> None:
    """Ingest a repository, ask three questions within a token budget, and show every decision.

    Starts Neo4j, its Browser, S3 and the service on loopback (the first run fetches Neo4j, 195 MB), and stops them
    again. The state is kept: the last lines say how to look at it in Neo4j Browser.
    """
    from graphsvc.cli.output import out
    from graphsvc.local.progress import ConsoleProgress
    from graphsvc.local.stack import LocalStack, StackProfile

    base = load_settings()
    settings = load_settings(
        state_dir=state_dir or base.state_dir / "demo", grpc_port=0, query_timeout_ms=DEMO_QUERY_TIMEOUT_MS
    )
    console = out()
    stack = LocalStack(settings, profile=StackProfile.SHORT_LIVED)
    with ConsoleProgress() as progress:
        try:
            endpoints = stack.start(progress)
            progress.say("Starting the service: schema, and a plan for every statement")
            missed = asyncio.run(_run(settings, endpoints, repository, console, keep=keep))
        finally:
            progress.say("Stopping")
            stack.stop()
    if missed:
        for question in missed:
            console.print(f"None of the right files was selected for: {question.text}", style="red", markup=False)
        raise typer.Exit(1)


async def _run(
    settings: Settings, endpoints: StackEndpoints, repository: Path, console: Console, *, keep: bool
) -> list[Question]:
    """The questions for which no right file was selected."""
    from graphsvc import app
    from graphsvc.cli.output import print_retrieval
    from graphsvc.telemetry import configure_logging

    configure_logging("WARNING")
    async with app.serving(settings, endpoints) as running:
        console.print(f"Service at {running.target}, Neo4j at {endpoints.neo4j_uri}, S3 at {endpoints.s3_endpoint}")
        api_key = await app.ensure_local_key(running.stores, settings.state_dir)
        session_id = await _ingest(running.target, api_key, repository, console)
        answers = await ask(running, session_id=session_id)
        for answered in answers:
            console.print(f"\n[bold cyan]{answered.question.text}[/bold cyan]", soft_wrap=True)
            print_retrieval(answered.retrieval, console, max_rows=SHOWN_ROWS, with_payload=True)
        _print_ending(settings, endpoints, answers, console)
        if keep:
            write_service_file(settings.state_dir, running.target)
            async with app.stop_signal() as stopped:
                console.print("Everything is up. Ctrl-C ends it.")
                await stopped.wait()
    return [answered.question for answered in answers if not answered.selected_files]


async def ask(running: Serving, *, session_id: str) -> list[Answered]:
    """The demo's questions with what an agent of its own retrieves for them, by the policy that shares the session.

    Args:
        running: a service whose local tenant has the ingested repository.
        session_id: the session it was ingested under.
    """
    from graphsvc.app import LOCAL_TENANT
    from graphsvc.client import GraphsvcClient
    from graphsvc.domain.tenancy import Role

    _, api_key = await running.stores.registry.create_key(LOCAL_TENANT, ASKING_AGENT, {Role.READER})
    async with GraphsvcClient(running.target, api_key=api_key) as client:
        session = client.session(ASKING_SESSION, model=MODEL)
        return [
            Answered(
                question,
                await session.retrieve(question.text, retrieval_budget=question.retrieval_budget, task_step=step),
            )
            for step, question in enumerate(load_questions())
        ]


async def _ingest(target: str, api_key: str, repository: Path, console: Console) -> str:
    """The session that holds the repository, shared with every agent of the tenant."""
    from graphsvc.cli.ingest import ingest_git
    from graphsvc.client import GraphsvcClient

    async with GraphsvcClient(target, api_key=api_key, timeout_s=120) as client:
        return await ingest_git(client, repository, console=console, share=True)


def _print_ending(settings: Settings, endpoints: StackEndpoints, answers: Sequence[Answered], console: Console) -> None:
    from graphsvc.local.browser import browser_url

    cypher = retrieval_cypher(answers[-1].retrieval.retrieval_id)
    console.rule(style="cyan")
    for answered in answers:
        ledger = answered.retrieval.ledger
        found = ", ".join(answered.selected_files) or "none of the right files"
        console.print(
            f"{ledger.tokens_spent:>5} of {ledger.retrieval_budget} tokens  {answered.question.text}  → {found}",
            markup=False,
            soft_wrap=True,
        )
    console.print("\nLook at the last retrieval in the graph (the state is kept):\n", markup=False)
    console.print(f"  graphsvc up --state-dir {settings.state_dir} --cypher '{cypher}'", markup=False, soft_wrap=True)
    address = browser_url(endpoints, cypher)
    if address:
        console.print(f"\nwhich opens Neo4j Browser at\n\n  {address}\n", markup=False, soft_wrap=True)


def retrieval_cypher(retrieval_id: str) -> str:
    """A statement for Neo4j Browser that draws a retrieval, what it selected, and the typed edges between them."""
    from graphsvc.app import LOCAL_TENANT

    return (
        f'MATCH p = (r:Retrieval {{tenant_id: "{LOCAL_TENANT}", retrieval_id: "{retrieval_id}"}})'
        "-[:SELECTED]->(:ContextUnit) RETURN p"
    )

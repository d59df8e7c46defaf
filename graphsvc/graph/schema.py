"""Constraints and indexes: made if absent, checked if there, waited for.

Source: known_failures.md, Odd input, scale, faults (two processes at once; a missing index; vectors of the wrong size).
"""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import Sequence
from dataclasses import dataclass

from neo4j.exceptions import Neo4jError

from graphsvc.domain.errors import ErrorReason, FailedPrecondition, GraphsvcError
from graphsvc.graph.catalog import Catalog, Mode, Statement
from graphsvc.graph.driver import GraphDriver, Parameters

MIN_VERSION = (2026, 0)
"""First Neo4j with Cypher 25 and a filter inside the vector index."""
VECTOR_INDEX = "unit_embedding"

_ATTEMPTS = 12
_STATEMENT_TIMEOUT_MS = 60_000


@dataclass(frozen=True, slots=True)
class IndexState:
    """An index as the database reports it; ``dimensions`` is None unless it is a vector index."""

    name: str
    type: str
    state: str
    population_percent: float
    dimensions: int | None

    @property
    def online(self) -> bool:
        """Whether statements can use it."""
        return self.state == "ONLINE"


async def check_version(driver: GraphDriver) -> str:
    """The server's version, such as "2026.09.0".

    Raises:
        FailedPrecondition: SCHEMA_MISMATCH, older than :data:`MIN_VERSION`.
        Unavailable: GRAPH_UNAVAILABLE.
    """
    agent = await driver.ping()
    found = re.fullmatch(r"Neo4j/((\d+)\.(\d+)\S*)", agent)
    if found is None or (int(found[2]), int(found[3])) < MIN_VERSION:
        raise FailedPrecondition(
            ErrorReason.SCHEMA_MISMATCH,
            f"the server at GRAPHSVC_NEO4J_URI is {agent}: graphsvc needs Neo4j 2026.0 or later (Cypher 25)",
        )
    return found[1]


async def show_indexes(driver: GraphDriver, catalog: Catalog) -> tuple[IndexState, ...]:
    """Every index of the database, by name."""
    rows, _ = await driver.read(catalog["show_indexes"], {}, timeout_ms=_STATEMENT_TIMEOUT_MS)
    states = (
        IndexState(row["name"], row["type"], row["state"], row["population_percent"], row["dimensions"]) for row in rows
    )
    return tuple(sorted(states, key=lambda state: state.name))


async def apply(driver: GraphDriver, catalog: Catalog, dimensions: int, timeout_s: int = 600) -> None:
    """Returns when every constraint and index is there, of the right shape and online. Doing it again changes nothing.

    Args:
        driver: an open connection.
        catalog: all statements.
        dimensions: numbers in a vector, 1 to 4096; 0 (no embeddings): what the index has, else 256.
        timeout_s: how long indexes may take to come online, seconds.

    Raises:
        FailedPrecondition: SCHEMA_MISMATCH, an old server, or a vector index of other dimensions.
        Unavailable: GRAPH_UNAVAILABLE.
        DeadlineExceeded: DEADLINE_PASSED, the indexes are still being built.
    """
    await check_version(driver)
    _check_dimensions(await show_indexes(driver, catalog), dimensions)
    statements = [s for s in catalog.in_folder("schema") if s.mode is Mode.SCHEMA]
    await create(driver, statements, {"dimensions": dimensions or 256})
    await driver.read(catalog["await_indexes"], {"timeout_s": timeout_s}, timeout_ms=timeout_s * 1000)
    # Another process may have been first, with other dimensions.
    indexes = await show_indexes(driver, catalog)
    _check_dimensions(indexes, dimensions)
    missing = {_made(statement) for statement in statements} - {index.name for index in indexes if index.online}
    if missing:
        raise FailedPrecondition(
            ErrorReason.SCHEMA_MISMATCH,
            f"not online: {', '.join(sorted(missing))}; another index over the same properties may have taken "
            "its place: see SHOW INDEXES, drop it and start again",
        )


async def create(driver: GraphDriver, statements: Sequence[Statement], params: Parameters) -> None:
    """Runs schema statements in order, each in a transaction of its own.

    IF NOT EXISTS is not enough when two processes create the same index at the same moment: the loser gets a schema
    error or a deadlock. It tries again and then finds the winner's.

    Raises:
        GraphsvcError: the last fault, when a statement fails every time.
    """
    for statement in statements:
        wanted = {param.name: params[param.name] for param in statement.params}
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                await driver.write(statement, wanted, timeout_ms=_STATEMENT_TIMEOUT_MS)
                break
            except GraphsvcError as error:
                if attempt == _ATTEMPTS or not _is_race(error):
                    raise
                await asyncio.sleep(random.uniform(0.01, 0.05) * attempt)  # noqa: S311 - spreads rivals, no secret


def _made(statement: Statement) -> str:
    """Name of the index that a schema statement makes; a uniqueness constraint's has the constraint's name."""
    found = re.search(r"(?:INDEX|CONSTRAINT) (\w+) IF NOT EXISTS", statement.text)
    return found[1] if found else statement.name


def _is_race(error: GraphsvcError) -> bool:
    cause = error.__cause__
    code = (cause.code or "") if isinstance(cause, Neo4jError) else ""
    return error.reason is ErrorReason.GRAPH_CONTENTION or ".Schema." in code


def _check_dimensions(indexes: Sequence[IndexState], dimensions: int) -> None:
    for index in indexes:
        if index.name == VECTOR_INDEX and dimensions and index.dimensions != dimensions:
            raise FailedPrecondition(
                ErrorReason.SCHEMA_MISMATCH,
                f"the vector index {VECTOR_INDEX} has {index.dimensions} dimensions, the embedder gives {dimensions}: "
                f"set GRAPHSVC_EMBEDDING_DIMENSIONS={index.dimensions}, or run `DROP INDEX {VECTOR_INDEX}` "
                "and write the units again",
                index_dimensions=index.dimensions,
                embedder_dimensions=dimensions,
            )

"""What ``graphsvc doctor`` asks a database."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from graphsvc.graph.catalog import SCHEMA_FOLDER, Catalog, Mode
from graphsvc.graph.driver import GraphDriver

_MADE = re.compile(
    r"\bCREATE\b[^;]*?\b(?:INDEX|CONSTRAINT)\s+`?(\w+)`?\s+(?:IF\s+NOT\s+EXISTS\s+)?FOR\b", re.IGNORECASE
)
_TIMEOUT_MS = 10_000
_RUNS = 4


async def database_clock_skew_s(driver: GraphDriver, catalog: Catalog) -> float:
    """Seconds that the database's clock is ahead of this machine's, half the round trip allowed for.

    The statement is Cypher 25, so an answer shows that the server knows it.

    Raises:
        GraphsvcError: no answer, or a server without Cypher 25.
    """
    # The first run plans and compiles, and its round trip says little; the shortest one says most.
    return min([await _measure(driver, catalog) for _ in range(_RUNS)])[1]


async def _measure(driver: GraphDriver, catalog: Catalog) -> tuple[float, float]:
    """Seconds of a round trip, and of the skew as it shows."""
    before = datetime.now(UTC)
    rows, _ = await driver.read(catalog["check_server"], {}, timeout_ms=_TIMEOUT_MS)
    round_trip = datetime.now(UTC) - before
    time: datetime = rows[0]["time"].to_native()
    return round_trip.total_seconds(), (time - (before + round_trip / 2)).total_seconds()


def expected_indexes(catalog: Catalog) -> frozenset[str]:
    """The names of the indexes that ``cypher/schema`` makes; a uniqueness constraint's has the constraint's name."""
    names: set[str] = set()
    for statement in catalog.in_folder(SCHEMA_FOLDER):
        if statement.mode is Mode.SCHEMA:
            names.update(_MADE.findall(statement.text))
    return frozenset(names)

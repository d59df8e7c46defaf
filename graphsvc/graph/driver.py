"""The connection to Neo4j: statements in, rows and bookmarks out, domain errors instead of the driver's.

Source: cypher_perf.md, sections 3 (time limits), 5 and 6 (retries, sessions).
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar

from neo4j import (
    READ_ACCESS,
    WRITE_ACCESS,
    AsyncDriver,
    AsyncGraphDatabase,
    AsyncManagedTransaction,
    AsyncSession,
    Bookmarks,
    Query,
    Record,
    unit_of_work,
)
from neo4j.exceptions import DriverError, Neo4jError

from graphsvc.graph.catalog import Statement
from graphsvc.graph.faults import deadline_passed, is_passing, revision_stale, to_domain, unavailable
from graphsvc.telemetry import record_query

Parameters = Mapping[str, Any]
T = TypeVar("T")

FIRST_RETRY_S = 0.02
"""Deadlocks are over in milliseconds; the driver's own first wait is 1 s."""
GRACE_S = 0.2
"""How much longer than a statement's limit the client waits for the server to say that it ended the transaction."""
CONNECT_S = 3.0
LIVENESS_CHECK_S = 30.0
"""Connections idle for longer are tried before use: proxies and restarts close them silently."""
MAX_CONNECTION_LIFETIME_S = 1800.0


class GraphDriver:
    """A pool of connections to one database; an asynchronous context.

    Args:
        uri: bolt, neo4j, bolt+s or neo4j+s address.
        user: user name; of no use without a password.
        password: None: no authentication.
        database: database name.
        pool_size: connections held at most, 1 to 1000.
    """

    def __init__(self, uri: str, user: str, password: str | None, database: str, pool_size: int) -> None:
        self._database = database
        self._driver: AsyncDriver = AsyncGraphDatabase.driver(  # pyright: ignore[reportUnknownMemberType]
            uri,
            auth=None if password is None else (user, password),
            max_connection_pool_size=pool_size,
            connection_timeout=CONNECT_S,
            connection_acquisition_timeout=CONNECT_S,
            liveness_check_timeout=LIVENESS_CHECK_S,
            max_connection_lifetime=MAX_CONNECTION_LIFETIME_S,
            keep_alive=True,
            # The answer is one row or a page: everything in one pull.
            fetch_size=-1,
            initial_retry_delay=FIRST_RETRY_S,
            # Servers describe every plan weakness as a notification; tests read them, requests need not carry them.
            notifications_min_severity="OFF",
            user_agent="graphsvc",
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes every connection."""
        await self._driver.close()

    async def ping(self, timeout_ms: int = 2000) -> str:
        """The server's product and version, such as "Neo4j/2026.09.0", after a round trip to it.

        Raises:
            Unavailable: GRAPH_UNAVAILABLE, no answer in ``timeout_ms``.
        """
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                info = await self._driver.get_server_info()  # pyright: ignore[reportUnknownMemberType]
                return info.agent
        except TimeoutError as error:
            raise unavailable() from error
        except (DriverError, Neo4jError, OSError) as error:
            raise to_domain(error) from error

    async def read(
        self, statement: Statement, params: Parameters, *, bookmarks: Sequence[str] = (), timeout_ms: int
    ) -> tuple[list[Record], tuple[str, ...]]:
        """Rows of a statement and the bookmarks of what it saw; one round trip, in READ access.

        Args:
            statement: a READ statement of the catalog.
            params: a value for each of its parameters.
            bookmarks: revisions that must be visible.
            timeout_ms: limit of everything, retries and the wait for a revision included; the server ends the
                transaction then.

        Raises:
            GraphsvcError: as :func:`graphsvc.graph.faults.to_domain` maps.
        """

        async def attempt(session: AsyncSession, left_s: float, entered: asyncio.Event) -> list[Record]:
            query = Query(statement.text, metadata={"statement": statement.name}, timeout=left_s)
            result = await session.run(query, _arguments(statement, params))
            entered.set()
            return [record async for record in result]

        return await self._until_done(statement.name, READ_ACCESS, bookmarks, timeout_ms, attempt)

    async def write(
        self, statement: Statement, params: Parameters, *, bookmarks: Sequence[str] = (), timeout_ms: int
    ) -> tuple[list[Record], tuple[str, ...]]:
        """Rows of a statement run in a managed write transaction, and the bookmarks of its commit.

        Deadlocks and other transient errors are retried while there is time.

        Raises:
            GraphsvcError: as :func:`graphsvc.graph.faults.to_domain` maps.
        """
        rows, seen = await self.write_many([(statement, params)], bookmarks=bookmarks, timeout_ms=timeout_ms)
        return rows[0], seen

    async def write_many(
        self,
        calls: Sequence[tuple[Statement, Parameters]],
        *,
        bookmarks: Sequence[str] = (),
        timeout_ms: int,
        check: Callable[[int, list[Record]], None] | None = None,
    ) -> tuple[list[list[Record]], tuple[str, ...]]:
        """Rows of several statements run in order in one managed write transaction: all or none.

        Args:
            calls: at least one statement with its parameters.
            bookmarks: revisions that must be visible.
            timeout_ms: limit of everything, retries included.
            check: called after each statement with its position and rows; what it raises rolls everything back.

        Raises:
            GraphsvcError: as :func:`graphsvc.graph.faults.to_domain` maps, and what ``check`` raises.
        """

        async def work(transaction: AsyncManagedTransaction) -> list[list[Record]]:
            rows: list[list[Record]] = []
            for position, (statement, params) in enumerate(calls):
                result = await transaction.run(statement.text, _arguments(statement, params))
                rows.append([record async for record in result])
                if check is not None:
                    check(position, rows[-1])
            return rows

        return await self.write_with(work, name=calls[-1][0].name, bookmarks=bookmarks, timeout_ms=timeout_ms)

    async def write_with(
        self,
        work: Callable[[AsyncManagedTransaction], Awaitable[T]],
        *,
        name: str,
        bookmarks: Sequence[str] = (),
        timeout_ms: int,
    ) -> tuple[T, tuple[str, ...]]:
        """What ``work`` returns after its managed write transaction is committed, and the bookmarks of the commit.

        Args:
            work: runs statements of the catalog on the transaction; called again after a transient error, so it must
                depend on nothing it changed outside the database.
            name: transaction metadata.
            bookmarks: revisions that must be visible.
            timeout_ms: limit of everything, retries included.

        Raises:
            GraphsvcError: as :func:`graphsvc.graph.faults.to_domain` maps, and what ``work`` raises.
        """

        async def attempt(session: AsyncSession, left_s: float, entered: asyncio.Event) -> T:
            @unit_of_work(metadata={"statement": name}, timeout=left_s)
            async def unit(transaction: AsyncManagedTransaction) -> T:
                entered.set()
                return await work(transaction)

            return await session.execute_write(unit)

        return await self._until_done(name, WRITE_ACCESS, bookmarks, timeout_ms, attempt)

    async def _until_done(
        self,
        name: str,
        access: str,
        bookmarks: Sequence[str],
        timeout_ms: int,
        attempt: Callable[[AsyncSession, float, asyncio.Event], Awaitable[T]],
    ) -> tuple[T, tuple[str, ...]]:
        """Attempts until one succeeds or time is up; each is given only the time left.

        The driver's own retry loop gives each attempt the whole limit again, hence max_transaction_retry_time=0 and
        the loop here. Leaving by an exception, cancellation too, closes the connection, which ends the server's
        transaction.
        """
        started = time.monotonic()
        end = started + timeout_ms / 1000
        pause = FIRST_RETRY_S
        entered = asyncio.Event()
        try:
            async with asyncio.timeout(timeout_ms / 1000 + GRACE_S):
                while True:
                    try:
                        async with self._driver.session(  # pyright: ignore[reportUnknownMemberType]
                            database=self._database,
                            default_access_mode=access,
                            bookmarks=Bookmarks.from_raw_values(bookmarks),
                            max_transaction_retry_time=0,
                        ) as session:
                            result = await attempt(session, max(0.001, end - time.monotonic()), entered)
                            seen = await session.last_bookmarks()
                            return result, tuple(sorted(seen.raw_values))
                    except (DriverError, Neo4jError) as error:
                        wait = pause * random.uniform(0.5, 1.0)  # noqa: S311 - spreads rivals, no secret
                        if not is_passing(error) or time.monotonic() + wait >= end:
                            raise
                        pause = min(2 * pause, 1.0)
                        await asyncio.sleep(wait)
        except TimeoutError as error:
            if entered.is_set():
                raise deadline_passed() from error
            raise (revision_stale() if bookmarks else unavailable()) from error
        except (DriverError, Neo4jError, OSError) as error:
            raise to_domain(error) from error
        finally:
            record_query(name, (time.monotonic() - started) * 1000)


def _arguments(statement: Statement, params: Parameters) -> dict[str, Any]:
    """The values of the statement's own parameters: an unused one would make a plan of its own."""
    return {param.name: params[param.name] for param in statement.params}

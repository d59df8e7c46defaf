"""Draining the outbox: what LMDB has and S3 lacks is carried over in the background.

One process at a time drains an LMDB directory; it holds a lock on a file there, which the kernel gives up when the
process ends, however it ends. An outbox has one entry a key, a round ends before the next begins, and only one process
runs rounds: so the operations on a key reach S3 one after the other, in the order of their commits.
Source: product.md, Content.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import math
import os
import random
from dataclasses import dataclass
from pathlib import Path

import structlog

from graphsvc.domain.errors import GraphsvcError, Unavailable
from graphsvc.ports import Clock
from graphsvc.tiers.cold import ColdTier, ObjectRefused, content_corrupt
from graphsvc.tiers.warm import Backlog, Operation, OutboxEntry, WarmTier

ROUND_ENTRIES = 64
BUSY_ROUND_ENTRIES = 2
"""Entries of a round while writes go on: what has to be late no longer must not hold them up either."""
CONCURRENT_REQUESTS = 8
QUIET_S = 0.5
"""Draining waits until nothing was written for so long: a copy costs as much processor time as the write it follows."""
QUIET_S_AN_ENTRY = 0.005
"""Longer for each content of a write: after the content comes its catalog entry, which takes about so long."""
BUSY_SHARE = 0.25
"""Of the time, for draining that is late while writes go on."""
MOST_LAG_S = 10.0
"""How long writes without a pause can put draining off."""
IDLE_S = 0.1
"""How often the outbox is looked at without being woken: another process may have written to it, or have ended."""
BACKOFF_FIRST_S = 0.1
BACKOFF_LAST_S = 2.0
"""Longest wait between two tries, each with one entry; so S3 is found again at most this long after it is back."""
SET_ASIDE_FIRST_S = 1.0
SET_ASIDE_LAST_S = 60.0
"""How long an entry waits that failed by itself (refused, damaged), while the others go on; doubled each time."""

_log = structlog.get_logger("graphsvc.tiers.outbox")


@dataclass(frozen=True, slots=True)
class _SetAside:
    until: float
    delay: float


class OutboxDrain:
    """The background task that empties an outbox.

    Args:
        warm: where the outbox and the contents are.
        cold: where they go.
        clock: for the age of the backlog.
        lock_path: the file whose lock says who drains.
        gives_way: whether draining waits for a pause of the writes; not where writes wait for it.
    """

    def __init__(self, warm: WarmTier, cold: ColdTier, clock: Clock, lock_path: Path, *, gives_way: bool) -> None:
        self._gives_way = gives_way
        self._quiet_from = -math.inf
        self._owed_since: float | None = None
        self._warm = warm
        self._cold = cold
        self._clock = clock
        self._lock_path = lock_path
        self._lock: int | None = None
        self._task: asyncio.Task[None] | None = None
        self._wake = asyncio.Event()
        self._closing = False
        self._failure_count = 0
        self._store_away = False
        self._set_aside: dict[bytes, _SetAside] = {}
        self._requests = asyncio.Semaphore(CONCURRENT_REQUESTS)
        self.round_done = asyncio.Event()
        """Set after every round, for those who wait for their entries."""

    @property
    def is_store_away(self) -> bool:
        """Whether S3 did not answer the last time this process asked it to drain."""
        return self._store_away

    def start(self) -> None:
        """Begins draining."""
        self._task = asyncio.create_task(self._run(), name="graphsvc-outbox")

    def wake(self, written_count: int = 1) -> None:
        """Says that there is something to drain.

        Args:
            written_count: contents of the write that says so, 1 or more.
        """
        now = asyncio.get_running_loop().time()
        self._quiet_from = max(self._quiet_from, now + QUIET_S + written_count * QUIET_S_AN_ENTRY)
        if self._owed_since is None:
            self._owed_since = now
        self._wake.set()

    async def aclose(self) -> None:
        """Ends after the round under way, whose requests must not outlive the lock."""
        self._closing = True
        self._wake.set()
        if self._task is not None:
            await self._task

    async def backlog(self) -> Backlog:
        """What is left to drain, by whichever process."""
        return await self._warm.backlog(self._clock.now())

    async def _run(self) -> None:
        try:
            while not self._closing:
                # cleared before looking: what is written during the look wakes again
                self._wake.clear()
                if self._must_give_way():
                    await asyncio.sleep(IDLE_S)
                    continue
                started = asyncio.get_running_loop().time()
                drained = await self._round()
                if not drained:
                    self._owed_since = None
                if self._failure_count:
                    await self._back_off()
                elif drained and self._are_writes_going_on():
                    took = asyncio.get_running_loop().time() - started
                    await asyncio.sleep(min(took * (1 / BUSY_SHARE - 1), QUIET_S))
                elif not drained:
                    with contextlib.suppress(TimeoutError):
                        await asyncio.wait_for(self._wake.wait(), IDLE_S)
        finally:
            if self._lock is not None:
                os.close(self._lock)

    def _are_writes_going_on(self) -> bool:
        return self._gives_way and asyncio.get_running_loop().time() < self._quiet_from

    def _must_give_way(self) -> bool:
        owed = self._owed_since
        late = owed is not None and asyncio.get_running_loop().time() - owed > MOST_LAG_S
        return not late and self._are_writes_going_on()

    async def _round(self) -> int:
        """Carries out the oldest entries; returns how many there were, 0 when another process drains.

        While S3 is away one entry is tried, so that a store that struggles is not pressed.
        """
        now = asyncio.get_running_loop().time()
        # those that a later operation has replaced never come up again
        self._set_aside = {s: aside for s, aside in self._set_aside.items() if aside.until + SET_ASIDE_LAST_S > now}
        skip = {sequence for sequence, aside in self._set_aside.items() if aside.until > now}
        try:
            if not self._has_lock():
                return 0
            limit = BUSY_ROUND_ENTRIES if self._are_writes_going_on() else ROUND_ENTRIES
            entries = await self._warm.list_outbox(1 if self._failure_count else limit, skip)
            outcomes = await asyncio.gather(*map(self._carry_out, entries), return_exceptions=True)
            await self._settle(entries, outcomes)
        except Exception as error:
            # a fault of this machine (a full disk): nothing is lost, the entries stay, the next round tries again
            _log.error("outbox_round_failed", error=type(error).__name__, message=str(error))
            self._failure_count += 1
            return 0
        finally:
            self.round_done.set()
            self.round_done = asyncio.Event()
        return len(entries)

    async def _settle(self, entries: tuple[OutboxEntry, ...], outcomes: list[BaseException | None]) -> None:
        done: list[OutboxEntry] = []
        away: Unavailable | None = None
        for entry, outcome in zip(entries, outcomes, strict=True):
            if outcome is None:
                done.append(entry)
            elif isinstance(outcome, Unavailable) and not isinstance(outcome, ObjectRefused):
                away = outcome
            else:
                self._put_aside(entry, outcome)
        for entry in done:
            self._set_aside.pop(entry.sequence, None)
        if done:
            await self._warm.acknowledge(done)
        if away is not None and not done:
            if not self._store_away:
                _log.warning("cold_store_away", cause=away.metadata.get("cause", ""))
            self._store_away = True
            self._failure_count += 1
            return
        if self._store_away and done:
            _log.info("cold_store_back")
            self._store_away = False
        self._failure_count = 0

    def _put_aside(self, entry: OutboxEntry, error: BaseException) -> None:
        earlier = self._set_aside.get(entry.sequence)
        delay = SET_ASIDE_FIRST_S if earlier is None else min(SET_ASIDE_LAST_S, 2 * earlier.delay)
        self._set_aside[entry.sequence] = _SetAside(asyncio.get_running_loop().time() + delay, delay)
        facts = error.metadata if isinstance(error, GraphsvcError) else {"error": type(error).__name__}
        _log.error(
            "outbox_entry_set_aside", **{"operation": entry.operation.name, "unit_id": entry.key.unit_id, **facts}
        )

    async def _carry_out(self, entry: OutboxEntry) -> None:
        async with self._requests:
            if entry.operation is Operation.DELETE:
                await self._cold.delete(entry.key, entry.stored_before)
                return
            read = await self._warm.read([entry.key])
            content = read.contents.get(entry.key)
            if content is not None:
                await self._cold.put(entry.key, content)
            elif entry.key not in read.deleted:  # if it was deleted meanwhile, that has its own entry, and this is gone
                raise content_corrupt(entry.key)

    async def _back_off(self) -> None:
        delay = min(BACKOFF_LAST_S, BACKOFF_FIRST_S * 2 ** min(self._failure_count, 10))
        delay *= random.uniform(0.5, 1.0)  # noqa: S311
        until = asyncio.get_running_loop().time() + delay
        while not self._closing and (left := until - asyncio.get_running_loop().time()) > 0:
            self._wake.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._wake.wait(), left)

    def _has_lock(self) -> bool:
        if self._lock is None:
            descriptor = os.open(self._lock_path, os.O_RDWR | os.O_CREAT, 0o600)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(descriptor)
                return False
            self._lock = descriptor
        return True

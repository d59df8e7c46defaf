"""The content tiers as one store: hot in memory, warm in LMDB, cold in S3.

Source: product.md, Content; gates T1, T12.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from graphsvc.domain.errors import DataLoss, ErrorReason, Unavailable
from graphsvc.domain.units import Tier
from graphsvc.ports import Clock, ContentKey, StoredContent
from graphsvc.settings import Settings, WriteAcknowledgement
from graphsvc.tiers.cold import ColdTier, content_corrupt
from graphsvc.tiers.hot import HotTier
from graphsvc.tiers.outbox import OutboxDrain
from graphsvc.tiers.warm import Backlog, WarmTier

DRAIN_LOCK = "drain.lock"
PENDING_RETRY_MS = 250
"""When to ask again for a content that another process has not carried to S3 yet: a few of its rounds."""
COLD_WAIT_S = 10.0
"""How long a put with write_acknowledgement=cold waits for S3; after it the content goes there all the same."""
COLD_POLL_S = 0.02
"""How often such a put looks, when another process drains."""


@dataclass(slots=True)
class TierCounters:
    """What the tiers have done since the start of the process.

    Attributes:
        hot_hits: contents read from memory.
        warm_hits: contents read from LMDB.
        cold_hits: contents read from S3.
        pending_misses: contents that were in no tier.
        corrupt_contents: contents found damaged in LMDB or S3.
    """

    hot_hits: int = 0
    warm_hits: int = 0
    cold_hits: int = 0
    pending_misses: int = 0
    corrupt_contents: int = 0


class ContentTiers:
    """Implements :class:`graphsvc.ports.TierStore`. Made by :func:`open_tier_store`."""

    def __init__(
        self,
        *,
        hot: HotTier,
        warm: WarmTier,
        cold: ColdTier,
        drain: OutboxDrain,
        acknowledgement: WriteAcknowledgement,
        clock: Clock,
    ) -> None:
        self.hot = hot
        self.warm = warm
        self.cold = cold
        self.counters = TierCounters()
        self._drain = drain
        self._acknowledgement = acknowledgement
        self._clock = clock

    async def start(self) -> None:
        """Opens LMDB and begins draining; S3 may be away.

        Raises:
            FailedPrecondition: SCHEMA_MISMATCH, another version of graphsvc wrote the LMDB directory.
        """
        await self.warm.open()
        await self.cold.open()
        self._drain.start()

    async def aclose(self) -> None:
        """Returns when what is under way is done; the outbox keeps what S3 does not have."""
        await self._drain.aclose()
        await self.cold.aclose()
        await self.warm.aclose()

    async def put(self, contents: Mapping[ContentKey, bytes]) -> None:
        """Stores contents, durable when it returns: all or none.

        Args:
            contents: by key; the key's digest is the content's.

        Raises:
            ResourceExhausted: STORAGE_FULL; nothing was written.
            Unavailable: COLD_STORE_UNAVAILABLE, with write_acknowledgement=cold only. The contents are in LMDB then
                and reach S3 later, unless the reconciler finds that nobody came back for them.
        """
        if not contents:
            return
        epoch = self.hot.epoch
        await self.warm.put(contents, self._clock.now())
        self._drain.wake(len(contents))
        if self._acknowledgement is WriteAcknowledgement.COLD:
            await self._wait_for_cold(list(contents))
        self.hot.keep(contents, epoch)

    async def get(self, keys: Sequence[ContentKey]) -> dict[ContentKey, bytes]:
        """The contents, fastest tier first; what comes from LMDB or S3 has its digest checked.

        A content that is damaged in LMDB is taken from S3 and put right.

        Raises:
            Unavailable: CONTENT_PENDING, in no tier that this process reaches; COLD_STORE_UNAVAILABLE.
            DataLoss: CONTENT_CORRUPT, damaged wherever it is.
        """
        epoch = self.hot.epoch
        found: dict[ContentKey, bytes] = {}
        wanted: list[ContentKey] = []
        for key in dict.fromkeys(keys):
            content = self.hot.get(key)
            if content is None:
                wanted.append(key)
            else:
                found[key] = content
        self.counters.hot_hits += len(found)
        if not wanted:
            return found
        read = await self.warm.read(wanted)
        self.counters.warm_hits += len(read.contents)
        self.counters.corrupt_contents += len(read.corrupt)
        fetched = await self._get_cold(
            [key for key in wanted if key not in read.contents and key not in read.deleted], read.corrupt
        )
        fresh = {**read.contents, **fetched}
        missing = [key for key in wanted if key not in fresh]
        if missing:
            self.counters.pending_misses += len(missing)
            raise Unavailable(
                ErrorReason.CONTENT_PENDING,
                "the content is not here yet: another server process has still to store it; try again",
                unit_id=missing[0].unit_id,
                retry_delay_ms=PENDING_RETRY_MS,
            )
        self.hot.keep(fresh, epoch)
        return {**found, **fresh}

    async def delete(self, keys: Sequence[ContentKey]) -> None:
        """Removes contents from hot and warm now, and from cold through the outbox; durable when it returns.

        Raises:
            ResourceExhausted: STORAGE_FULL, the disk has no room to remove anything.
        """
        await self._delete(keys, None)

    async def delete_stored_before(self, keys: Sequence[ContentKey], cutoff: datetime) -> int:
        """As delete, but spares what was put at or after ``cutoff``; returns how many were not spared.

        Raises:
            ResourceExhausted: STORAGE_FULL.
        """
        return await self._delete(keys, cutoff)

    async def list_keys(
        self, tier: Literal[Tier.WARM, Tier.COLD], after: ContentKey | None, limit: int
    ) -> tuple[StoredContent, ...]:
        """What a tier holds after the given key in the tier's own order, at most ``limit`` (1 to 1000); empty: the end.

        Raises:
            Unavailable: COLD_STORE_UNAVAILABLE.
        """
        if tier is Tier.WARM:
            return await self.warm.list_keys(after, limit)
        return await self.cold.list_keys(after, limit)

    async def backlog(self) -> Backlog:
        """What S3 does not have yet: count, bytes, age."""
        return await self._drain.backlog()

    async def _delete(self, keys: Sequence[ContentKey], cutoff: datetime | None) -> int:
        if not keys:
            return 0
        self.hot.discard(keys)
        removed = await self.warm.delete(keys, self._clock.now(), cutoff)
        # once more: a read that began in between has found it in LMDB
        self.hot.discard(keys)
        self._drain.wake()
        return removed

    async def _get_cold(
        self, keys: Sequence[ContentKey], corrupt_in_warm: frozenset[ContentKey]
    ) -> dict[ContentKey, bytes]:
        outcomes = await asyncio.gather(*map(self.cold.get, keys), return_exceptions=True)
        fetched: dict[ContentKey, bytes] = {}
        for key, outcome in zip(keys, outcomes, strict=True):
            if isinstance(outcome, BaseException):
                self.counters.corrupt_contents += isinstance(outcome, DataLoss)
                raise outcome
            if outcome is not None:
                fetched[key] = outcome
            elif key in corrupt_in_warm:
                raise content_corrupt(key)
        self.counters.cold_hits += len(fetched)
        for key in corrupt_in_warm:
            await self.warm.repair(key, fetched[key])
        return fetched

    async def _wait_for_cold(self, keys: Sequence[ContentKey]) -> None:
        deadline = asyncio.get_running_loop().time() + COLD_WAIT_S
        while True:
            round_done = self._drain.round_done
            if not await self.warm.has_pending_puts(keys):
                return
            if self._drain.is_store_away or asyncio.get_running_loop().time() > deadline:
                raise Unavailable(
                    ErrorReason.COLD_STORE_UNAVAILABLE,
                    "the object store does not take the content in time, and a write waits for it: try again",
                    retry_delay_ms=1000,
                )
            try:
                await asyncio.wait_for(round_done.wait(), COLD_POLL_S)
            except TimeoutError:
                continue


def open_tier_store(
    settings: Settings, *, s3_endpoint: str, s3_access_key: str, s3_secret_key: str, clock: Clock
) -> ContentTiers:
    """The content tiers as the settings say; ``start()`` opens them, ``aclose()`` closes them.

    Args:
        settings: warm_path, lmdb_map_mb, lmdb_map_max_mb, hot_bytes, s3_bucket, s3_prefix, s3_region and
            write_acknowledgement are read.
        s3_endpoint: address of the S3 endpoint.
        s3_access_key: access key id.
        s3_secret_key: secret key.
        clock: gives stored times.
    """
    warm = WarmTier(
        settings.warm_path,
        map_bytes=settings.lmdb_map_mb * 2**20,
        map_max_bytes=settings.lmdb_map_max_mb * 2**20,
    )
    cold = ColdTier(
        endpoint=s3_endpoint,
        access_key=s3_access_key,
        secret_key=s3_secret_key,
        region=settings.s3_region,
        bucket=settings.s3_bucket,
        prefix=settings.s3_prefix,
    )
    return ContentTiers(
        hot=HotTier(settings.hot_bytes),
        warm=warm,
        cold=cold,
        drain=OutboxDrain(
            warm,
            cold,
            clock,
            settings.warm_path / DRAIN_LOCK,
            gives_way=settings.write_acknowledgement is WriteAcknowledgement.WARM,
        ),
        acknowledgement=settings.write_acknowledgement,
        clock=clock,
    )

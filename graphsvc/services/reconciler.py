"""The reconciler: removes content that no catalog entry names.

A write stores its content first and its catalog entry second; when it dies in between, the content stays and nobody can
see it. What is younger than the grace period may belong to a write under way and is left alone, and what is put again
while the reconciler looks is spared by the store itself, so that two reconcilers, or one beside any writer, do no harm.
Source: product.md, Content.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby
from typing import Literal

import structlog

from graphsvc.domain.units import Tier
from graphsvc.ports import Clock, ContentKey, StoredContent, TierStore, UnitStore

PAGE_SIZE = 1000

_log = structlog.get_logger("graphsvc.services.reconciler")


@dataclass(frozen=True, slots=True)
class TierReconciliation:
    """What was found in one tier.

    Attributes:
        scanned_count: contents looked at.
        orphan_count: those past the grace period without a catalog entry.
        removed_count: orphans removed; fewer where they were put again meanwhile.
    """

    scanned_count: int
    orphan_count: int
    removed_count: int


@dataclass(frozen=True, slots=True)
class Reconciliation:
    """What a run found and did; a content that is in both tiers counts in both."""

    warm: TierReconciliation
    cold: TierReconciliation

    @property
    def orphan_count(self) -> int:
        """Stored copies without a catalog entry."""
        return self.warm.orphan_count + self.cold.orphan_count

    @property
    def removed_count(self) -> int:
        """Stored copies removed, in cold through the outbox."""
        return self.warm.removed_count + self.cold.removed_count


class Reconciler:
    """Compares the tiers with the catalog.

    Args:
        catalog: says which contents have an entry.
        tiers: the contents.
        clock: for the age of contents.
        grace_s: contents younger than this are never orphans, seconds.
    """

    def __init__(self, catalog: UnitStore, tiers: TierStore, clock: Clock, *, grace_s: float) -> None:
        self._catalog = catalog
        self._tiers = tiers
        self._clock = clock
        self._grace = timedelta(seconds=grace_s)

    async def run(self) -> Reconciliation:
        """What was found and removed, in warm, then in cold.

        Raises:
            Unavailable: GRAPH_UNAVAILABLE or COLD_STORE_UNAVAILABLE; what was removed before stays removed.
        """
        result = await self._reconcile(remove=True)
        _log.info(
            "reconciled",
            warm_scanned=result.warm.scanned_count,
            cold_scanned=result.cold.scanned_count,
            orphans=result.orphan_count,
            removed=result.removed_count,
        )
        return result

    async def survey(self) -> Reconciliation:
        """What a run would find; nothing is removed.

        Raises: as run.
        """
        return await self._reconcile(remove=False)

    async def _reconcile(self, *, remove: bool) -> Reconciliation:
        cutoff = self._clock.now() - self._grace
        return Reconciliation(
            warm=await self._reconcile_tier(Tier.WARM, cutoff, remove=remove),
            cold=await self._reconcile_tier(Tier.COLD, cutoff, remove=remove),
        )

    async def _reconcile_tier(
        self, tier: Literal[Tier.WARM, Tier.COLD], cutoff: datetime, *, remove: bool
    ) -> TierReconciliation:
        scanned = orphaned = removed = 0
        after: ContentKey | None = None
        while page := await self._tiers.list_keys(tier, after, PAGE_SIZE):
            after = page[-1].key
            scanned += len(page)
            orphans = await self._orphans([stored for stored in page if stored.stored_time < cutoff])
            orphaned += len(orphans)
            if remove and orphans:
                removed += await self._tiers.delete_stored_before(orphans, cutoff)
        return TierReconciliation(scanned, orphaned, removed)

    async def _orphans(self, page: Sequence[StoredContent]) -> list[ContentKey]:
        orphans: list[ContentKey] = []
        for tenant_id, group in groupby((stored.key for stored in page), key=lambda key: key.tenant_id):
            keys = list(group)
            known = await self._catalog.existing_content(tenant_id, [(k.unit_id, k.content_sha256) for k in keys])
            orphans.extend(key for key in keys if (key.unit_id, key.content_sha256) not in known)
        return orphans

"""An in-memory TierStore: the oracle of the contract suite, and content for tests of services that need no disk."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Literal

from graphsvc.domain.errors import ErrorReason, Unavailable
from graphsvc.domain.units import Tier
from graphsvc.ports import Clock, ContentKey, StoredContent


class MemoryTiers:
    """Implements graphsvc.ports.TierStore with one dict; warm and cold are the same."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.contents: dict[ContentKey, tuple[bytes, datetime]] = {}

    async def put(self, contents: Mapping[ContentKey, bytes]) -> None:
        now = self._clock.now()
        self.contents |= {key: (content, now) for key, content in contents.items()}

    async def get(self, keys: Sequence[ContentKey]) -> dict[ContentKey, bytes]:
        missing = [key for key in keys if key not in self.contents]
        if missing:
            raise Unavailable(
                ErrorReason.CONTENT_PENDING, "not here yet", unit_id=missing[0].unit_id, retry_delay_ms=250
            )
        return {key: self.contents[key][0] for key in keys}

    async def delete(self, keys: Sequence[ContentKey]) -> None:
        for key in keys:
            self.contents.pop(key, None)

    async def list_keys(
        self, tier: Literal[Tier.WARM, Tier.COLD], after: ContentKey | None, limit: int
    ) -> tuple[StoredContent, ...]:
        order = sorted(self.contents, key=_position)
        start = order if after is None else [key for key in order if _position(key) > _position(after)]
        return tuple(StoredContent(key, self.contents[key][1]) for key in start[:limit])

    async def delete_stored_before(self, keys: Sequence[ContentKey], cutoff: datetime) -> int:
        old = [key for key in keys if key not in self.contents or self.contents[key][1] < cutoff]
        await self.delete(old)
        return len(old)


def _position(key: ContentKey) -> tuple[str, str, str]:
    return key.tenant_id, key.unit_id, key.content_sha256

"""When the outbox drains, over a fake LMDB: what is written while writes go on."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from graphsvc.tiers import outbox
from graphsvc.tiers.outbox import BUSY_ROUND_ENTRIES, ROUND_ENTRIES, OutboxDrain


class EmptyWarm:
    def __init__(self) -> None:
        self.limits: list[int] = []

    async def list_outbox(self, limit: int, _skip: set[int]) -> tuple[()]:
        self.limits.append(limit)
        return ()


async def limits_while_writing(tmp_path: Path, *, gives_way: bool) -> list[int]:
    """The sizes of the rounds that began while writes followed one another without a pause."""
    warm = EmptyWarm()
    drain = OutboxDrain(warm, None, None, tmp_path / "lock", gives_way=gives_way)
    drain.wake()
    drain.start()
    for _ in range(10):
        drain.wake()
        await asyncio.sleep(0.02)
    seen = list(warm.limits)
    await drain.aclose()
    return seen


async def test_draining_gives_way_to_writes(tmp_path: Path):
    assert await limits_while_writing(tmp_path, gives_way=True) == []


async def test_draining_that_is_late_takes_small_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(outbox, "MOST_LAG_S", -1.0)
    assert set(await limits_while_writing(tmp_path, gives_way=True)) == {BUSY_ROUND_ENTRIES}


async def test_where_writes_wait_for_it_draining_never_waits(tmp_path: Path):
    assert set(await limits_while_writing(tmp_path, gives_way=False)) == {ROUND_ENTRIES}


async def test_the_larger_a_write_the_longer_draining_waits_for_its_catalog_entries(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(outbox, "QUIET_S", 0.0)
    monkeypatch.setattr(outbox, "IDLE_S", 0.01)
    warm = EmptyWarm()
    drain = OutboxDrain(warm, None, None, tmp_path / "lock", gives_way=True)
    drain.wake(100)
    drain.start()
    await asyncio.sleep(0.2)
    assert warm.limits == []
    await asyncio.sleep(0.6)
    assert set(warm.limits) == {ROUND_ENTRIES}
    await drain.aclose()


async def test_late_draining_rests_while_writes_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(outbox, "MOST_LAG_S", -1.0)

    class Slow(OutboxDrain):
        rounds = 0

        async def _round(self) -> int:
            self.rounds += 1
            await asyncio.sleep(0.02)
            return BUSY_ROUND_ENTRIES

    drain = Slow(EmptyWarm(), None, None, tmp_path / "lock", gives_way=True)
    drain.wake(1000)
    drain.start()
    await asyncio.sleep(0.5)
    assert 1 < drain.rounds <= 0.5 / 0.02 * outbox.BUSY_SHARE + 1
    await drain.aclose()

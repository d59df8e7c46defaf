"""The content tiers on a real LMDB and a real S3 that stops, starts and rots."""

from __future__ import annotations

import asyncio
import contextlib
import re
import resource
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator, Sequence
from datetime import timedelta
from pathlib import Path

import lmdb
import pytest

from graphsvc.domain.errors import DataLoss, ErrorReason, FailedPrecondition, ResourceExhausted, Unavailable
from graphsvc.domain.units import Tier
from graphsvc.ports import ContentKey, StoredContent
from graphsvc.services.reconciler import Reconciler
from graphsvc.tiers.store import ContentTiers
from tests.support.s3_server import S3Server, s3_server
from tests.support.tier_case import (
    BUCKET,
    SettableClock,
    key_of,
    object_name,
    open_tiers,
    some_contents,
    until,
    until_drained,
)


@pytest.fixture
def s3(tmp_path: Path) -> Iterator[S3Server]:
    with s3_server(tmp_path / "s3") as server:
        yield server


def open_on(path: Path, s3: S3Server, **overrides: object) -> contextlib.AbstractAsyncContextManager[ContentTiers]:
    return open_tiers(
        path,
        endpoint=s3.endpoint,
        access_key=s3.access_key,
        secret_key=s3.secret_key,
        **overrides,  # type: ignore[arg-type]
    )


def names_of(contents: Sequence[ContentKey] | dict[ContentKey, bytes]) -> list[str]:
    return sorted(map(object_name, contents))


def damage(store: ContentTiers, key: ContentKey) -> None:
    """Changes one byte of a content in LMDB."""
    encoded = b"\0".join((key.tenant_id.encode(), key.unit_id.encode(), bytes.fromhex(key.content_sha256)))
    environment, tables = store.warm._environment, store.warm._tables
    with environment.begin(write=True, db=tables.content) as transaction:
        value = bytearray(transaction.get(encoded) or b"")
        value[-1] ^= 1
        transaction.put(encoded, bytes(value))


async def reason_of_get(store: ContentTiers, key: ContentKey) -> ErrorReason | None:
    try:
        await store.get([key])
    except (Unavailable, DataLoss) as error:
        return error.reason
    return None


# Which tier answers


async def test_T1_a_hot_read_asks_neither_lmdb_nor_s3(tmp_path: Path, s3: S3Server) -> None:
    async with open_on(tmp_path, s3) as store:
        contents = some_contents(50)
        await store.put(contents)
        await until_drained(store)
        await store._drain.aclose()
        reads, requests = store.warm.read_count, store.cold.request_count
        assert await store.get(list(contents)) == contents
        assert (store.warm.read_count, store.cold.request_count) == (reads, requests)
        assert store.counters.hot_hits == 50


async def test_T1_a_warm_read_is_one_transaction_and_asks_no_s3(tmp_path: Path, s3: S3Server) -> None:
    async with open_on(tmp_path, s3, hot_bytes=0) as store:
        contents = some_contents(50)
        await store.put(contents)
        await until_drained(store)
        await store._drain.aclose()
        reads, requests = store.warm.read_count, store.cold.request_count
        assert await store.get(list(contents)) == contents
        assert (store.warm.read_count, store.cold.request_count) == (reads + 1, requests)
        assert (store.counters.hot_hits, store.counters.warm_hits) == (0, 50)


async def test_what_only_s3_has_comes_from_there_and_is_hot_afterwards(tmp_path: Path, s3: S3Server) -> None:
    contents = some_contents(20)
    async with open_on(tmp_path / "a", s3) as first, open_on(tmp_path / "b", s3) as second:
        await first.put(contents)
        await until_drained(first)
        assert await second.get(list(contents)) == contents
        assert second.counters.cold_hits == 20
        assert await second.get(list(contents)) == contents
        assert (second.counters.cold_hits, second.counters.hot_hits) == (20, 20)


async def test_each_key_comes_from_its_own_tier_in_one_get(tmp_path: Path, s3: S3Server) -> None:
    cold, warm, hot = (some_contents(3, seed=seed) for seed in ("c", "w", "h"))
    async with open_on(tmp_path / "a", s3) as other:
        await other.put(cold)
        await until_drained(other)
    async with open_on(tmp_path / "b", s3) as store:
        await store.put(warm)
        store.hot.discard(list(warm))
        await store.put(hot)
        assert await store.get([*cold, *warm, *hot]) == {**cold, **warm, **hot}
        counters = store.counters
        assert (counters.hot_hits, counters.warm_hits, counters.cold_hits) == (3, 3, 3)


async def test_what_another_process_has_not_drained_is_pending_then_there(tmp_path: Path, s3: S3Server) -> None:
    contents = some_contents(1)
    (key,) = contents
    s3.stop()
    async with open_on(tmp_path / "a", s3) as first, open_on(tmp_path / "b", s3) as second:
        await first.put(contents)
        assert await reason_of_get(second, key) is ErrorReason.COLD_STORE_UNAVAILABLE
        s3.start()
        await until_drained(first)
        assert await second.get([key]) == contents


async def test_a_memory_bound_is_kept_and_the_rest_is_read_from_lmdb(tmp_path: Path, s3: S3Server) -> None:
    async with open_on(tmp_path, s3, hot_bytes=20_000) as store:
        contents = some_contents(20, size=2000)
        await store.put(contents)
        assert 0 < store.hot.size_bytes <= 20_000
        assert await store.get(list(contents)) == contents
        assert store.counters.warm_hits >= 12
        assert store.hot.size_bytes <= 20_000


# S3 away


async def test_s3_away_at_a_put_and_drained_when_it_is_back(tmp_path: Path, s3: S3Server) -> None:
    s3.stop()
    contents = some_contents(100)
    clock = SettableClock()
    async with open_on(tmp_path, s3, clock=clock) as store:
        await store.put(contents)
        clock.advance(5)
        backlog = await store.backlog()
        assert (backlog.pending_count, backlog.pending_bytes, backlog.oldest_age_s) == (100, 100 * 200, 5.0)
        assert await store.get(list(contents)) == contents
        s3.start()
        await until_drained(store)
        assert s3.names(BUCKET) == names_of(contents)
        backlog = await store.backlog()
        assert (backlog.pending_count, backlog.pending_bytes, backlog.oldest_age_s) == (0, 0, 0.0)


async def test_the_outbox_outlives_the_store(tmp_path: Path, s3: S3Server) -> None:
    s3.stop()
    contents = some_contents(100)
    async with open_on(tmp_path, s3) as store:
        await store.put(contents)
    s3.start()
    async with open_on(tmp_path, s3) as store:
        await until_drained(store)
        assert s3.names(BUCKET) == names_of(contents)


async def test_a_delete_of_a_pending_put_never_reaches_s3_as_an_object(tmp_path: Path, s3: S3Server) -> None:
    s3.stop()
    kept, deleted = some_contents(10, seed="k"), some_contents(10, seed="d")
    async with open_on(tmp_path, s3) as store:
        await store.put({**kept, **deleted})
        await store.delete(list(deleted))
        assert (await store.backlog()).pending_bytes == 10 * 200
        s3.start()
        await until_drained(store)
        assert s3.names(BUCKET) == names_of(kept)


@pytest.mark.parametrize("steps", ["pd", "pdp", "pdpd", "dpd", "d", "dd", "pp", "dp"])
@pytest.mark.parametrize("in_s3_before", [False, True])
async def test_the_last_operation_wins_whatever_is_pending(
    tmp_path: Path, s3: S3Server, steps: str, in_s3_before: bool
) -> None:
    contents = some_contents(1)
    (key,) = contents
    async with open_on(tmp_path, s3) as store:
        if in_s3_before:
            await store.put(contents)
            await until_drained(store)
        s3.stop()
        for step in steps:
            await (store.put(contents) if step == "p" else store.delete([key]))
        assert (await store.backlog()).pending_count == 1
        is_there = steps.endswith("p")
        assert await reason_of_get(store, key) is (None if is_there else ErrorReason.CONTENT_PENDING)
        s3.start()
        await until_drained(store)
        assert s3.names(BUCKET) == ([object_name(key)] if is_there else [])


async def test_puts_and_deletes_while_the_outbox_drains(tmp_path: Path, s3: S3Server) -> None:
    contents = some_contents(40)
    keys = list(contents)
    async with open_on(tmp_path, s3) as store:
        for turn in range(12):
            await store.put(contents)
            await asyncio.sleep(0.02 * (turn % 4))
            await store.delete(keys[turn % 2 :: 2])
        await until_drained(store)
        left = set(keys[0::2])  # the last turn deleted the odd ones
        assert s3.names(BUCKET) == names_of(list(left))
        for key in keys:
            assert await reason_of_get(store, key) is (None if key in left else ErrorReason.CONTENT_PENDING)


async def test_a_delete_while_its_put_is_under_way_wins(
    tmp_path: Path, s3: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    contents = some_contents(1)
    (key,) = contents
    async with open_on(tmp_path, s3) as store:
        reached, released = asyncio.Event(), asyncio.Event()
        put = store.cold.put

        async def slow_put(key: ContentKey, content: bytes) -> None:
            reached.set()
            await released.wait()
            await put(key, content)

        monkeypatch.setattr(store.cold, "put", slow_put)
        await store.put(contents)
        await reached.wait()
        await store.delete([key])
        released.set()
        await until_drained(store)
        assert s3.names(BUCKET) == []
        assert await reason_of_get(store, key) is ErrorReason.CONTENT_PENDING


async def test_an_unavailable_s3_is_said_with_a_delay(tmp_path: Path) -> None:
    async with open_tiers(tmp_path) as store:
        key = key_of("absent", b"x")
        with pytest.raises(Unavailable) as caught:
            await store.get([key])
        assert caught.value.reason is ErrorReason.COLD_STORE_UNAVAILABLE
        assert int(caught.value.metadata["retry_delay_ms"]) > 0
        with pytest.raises(Unavailable):
            await store.list_keys(Tier.COLD, None, 10)


async def test_wrong_keys_are_unavailable_not_absent(tmp_path: Path, s3: S3Server) -> None:
    async with open_tiers(tmp_path, endpoint=s3.endpoint, access_key=s3.access_key, secret_key="wrong" * 4) as store:
        assert await reason_of_get(store, key_of("absent", b"x")) is ErrorReason.COLD_STORE_UNAVAILABLE


# write_acknowledgement=cold


async def test_acknowledged_cold_means_in_s3(tmp_path: Path, s3: S3Server) -> None:
    async with open_on(tmp_path, s3, write_acknowledgement="cold") as store:
        for number in range(5):
            contents = some_contents(3, seed=f"s{number}-")
            await store.put(contents)
            assert set(names_of(contents)) <= set(s3.names(BUCKET))


async def test_acknowledged_cold_fails_while_s3_is_away(tmp_path: Path, s3: S3Server) -> None:
    s3.stop()
    contents = some_contents(3)
    async with open_on(tmp_path, s3, write_acknowledgement="cold") as store:
        with pytest.raises(Unavailable) as caught:
            await store.put(contents)
        assert caught.value.reason is ErrorReason.COLD_STORE_UNAVAILABLE
        s3.start()

        async def accepted() -> bool:
            try:
                await store.put(contents)
            except Unavailable:
                return False
            return True

        await until(accepted)
        assert s3.names(BUCKET) == names_of(contents)


# Damage


async def test_a_damaged_warm_content_is_put_right_from_s3(tmp_path: Path, s3: S3Server) -> None:
    contents = some_contents(3)
    first, *_ = contents
    async with open_on(tmp_path, s3, hot_bytes=0) as store:
        await store.put(contents)
        await until_drained(store)
        damage(store, first)
        assert await store.get(list(contents)) == contents
        assert (store.counters.cold_hits, store.counters.corrupt_contents) == (1, 1)
        assert await store.get(list(contents)) == contents
        assert store.counters.cold_hits == 1


async def test_damaged_before_s3_had_it_is_data_loss_and_is_not_uploaded(tmp_path: Path, s3: S3Server) -> None:
    s3.stop()
    contents, others = some_contents(1), some_contents(5, seed="o")
    (key,) = contents
    async with open_on(tmp_path, s3, hot_bytes=0) as store:
        await store.put(contents)
        damage(store, key)
        await store.put(others)
        s3.start()

        async def only_the_damaged_is_left() -> bool:
            return (await store.backlog()).pending_count == 1

        await until(only_the_damaged_is_left)
        assert s3.names(BUCKET) == names_of(others)
        assert await reason_of_get(store, key) is ErrorReason.CONTENT_CORRUPT


async def test_damaged_in_lmdb_and_in_s3_is_data_loss(tmp_path: Path, s3: S3Server) -> None:
    contents = some_contents(1)
    (key,) = contents
    async with open_on(tmp_path, s3, hot_bytes=0) as store:
        await store.put(contents)
        await until_drained(store)
        damage(store, key)
        (s3.objects / BUCKET / object_name(key)).write_bytes(bytes(200))
        assert await reason_of_get(store, key) is ErrorReason.CONTENT_CORRUPT


async def test_a_damaged_object_is_data_loss(tmp_path: Path, s3: S3Server) -> None:
    contents = some_contents(2)
    key, other = contents
    async with open_on(tmp_path / "a", s3) as store:
        await store.put(contents)
        await until_drained(store)
    (s3.objects / BUCKET / object_name(key)).write_bytes(bytes(200))
    async with open_on(tmp_path / "b", s3) as store:
        assert await reason_of_get(store, key) is ErrorReason.CONTENT_CORRUPT
        assert await store.get([other]) == {other: contents[other]}


# Room


async def test_the_map_grows(tmp_path: Path) -> None:
    async with open_tiers(tmp_path, lmdb_map_mb=16, lmdb_map_max_mb=256) as store:
        contents = some_contents(60, size=2**20)
        await store.put(contents)
        assert await store.get(list(contents)) == contents
        assert store.warm._map_size() == 64 * 2**20


@pytest.mark.skipif(not Path("/proc/self/smaps").exists(), reason="Linux tells what of a map is in memory")
async def test_the_map_takes_no_memory_of_this_process(tmp_path: Path) -> None:
    def resident_kib() -> int:
        smaps = Path("/proc/self/smaps").read_text()
        found = re.findall(
            r"r--s \S+ \S+ \S+ +\S*" + re.escape(tmp_path.name) + r"/\S*data\.mdb\n.*?\nRss: +(\d+) kB", smaps, re.S
        )
        assert len(found) == 1
        return int(found[0])

    async with open_tiers(tmp_path, lmdb_map_mb=16, lmdb_map_max_mb=256, hot_bytes=0) as store:
        contents = some_contents(60, size=2**20)
        await store.put(contents)
        assert resident_kib() == 0
        assert await store.get(list(contents)) == contents
        assert resident_kib() == 0


async def test_a_closed_map_is_not_let_go_of(tmp_path: Path) -> None:
    async with open_tiers(tmp_path) as store:
        warm = store.warm
    assert warm._map is None, "a read that ends late would drop the pages of whatever lies there by then"
    warm._release_map()


async def fill(store: ContentTiers, stored: dict[ContentKey, bytes], count: int, size: int) -> ErrorReason:
    """Puts ``count`` contents at a time until the store refuses; adds to ``stored`` what it took."""
    for number in range(100_000):
        contents = some_contents(count, size, seed=f"f{size}-{number}-")
        try:
            await store.put(contents)
        except ResourceExhausted as error:
            return error.reason
        stored |= contents
    raise AssertionError("it never refused")


async def test_a_full_map_takes_nothing_of_a_put_loses_nothing_and_can_be_emptied(tmp_path: Path) -> None:
    async with open_tiers(tmp_path, lmdb_map_mb=16, lmdb_map_max_mb=32, hot_bytes=0) as store:
        stored: dict[ContentKey, bytes] = {}
        assert await fill(store, stored, 4, 2**20) is ErrorReason.STORAGE_FULL
        assert 20 <= len(stored) < 32
        held = {entry.key for entry in await store.list_keys(Tier.WARM, None, 1000)}
        assert held == set(stored)
        assert await store.get(list(stored)) == stored
        # small ones until nothing fits, so that a removal finds no free page
        await fill(store, stored, 20, 3000)
        await fill(store, stored, 1, 10)
        keys = list(stored)
        await store.delete(keys[: len(keys) // 2])
        again = some_contents(4, size=2**20, seed="again")
        await store.put(again)
        assert await store.get([*again, *keys[len(keys) // 2 :]]) == {
            **again,
            **{key: stored[key] for key in keys[len(keys) // 2 :]},
        }


async def test_a_put_that_does_not_fit_takes_no_other_down(tmp_path: Path) -> None:
    async with open_tiers(tmp_path, lmdb_map_mb=16, lmdb_map_max_mb=16) as store:
        small = [some_contents(1, seed=f"s{number}-") for number in range(10)]
        large = some_contents(20, size=2**20, seed="large")
        outcomes = await asyncio.gather(
            store.put(some_contents(1, seed="first")),
            *map(store.put, small[:5]),
            store.put(large),
            *map(store.put, small[5:]),
            return_exceptions=True,
        )
        failed = [outcome for outcome in outcomes if outcome is not None]
        assert [type(error) for error in failed] == [ResourceExhausted]
        store.hot.discard([key for contents in small for key in contents])
        for contents in small:
            assert await store.get(list(contents)) == contents
        held = {entry.key for entry in await store.list_keys(Tier.WARM, None, 1000)}
        assert not held & set(large)


DISK_FULL = """
    import asyncio, resource, sys
    from pathlib import Path
    from graphsvc.domain.errors import ResourceExhausted
    from graphsvc.telemetry import configure_logging
    from tests.support.tier_case import open_tiers, some_contents

    async def main():
        async with open_tiers(Path(sys.argv[1]), hot_bytes=0) as store:
            resource.setrlimit(resource.RLIMIT_FSIZE, (8 * 2**20, resource.RLIM_INFINITY))
            stored = {}
            try:
                for number in range(20):
                    batch = some_contents(1, size=2**20, seed=f"b{number}-")
                    await store.put(batch)
                    stored |= batch
            except ResourceExhausted as error:
                print(error.reason)
            assert await store.get(list(stored)) == stored
            resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
            await store.put(batch)
            stored |= batch
            assert await store.get(list(stored)) == stored
            print(len(stored))

    configure_logging()
    asyncio.run(main())
"""


def test_a_disk_that_takes_no_more_is_storage_full_and_goes_on_when_there_is_room(tmp_path: Path) -> None:
    script = tmp_path / "disk_full.py"
    script.write_text(textwrap.dedent(DISK_FULL))
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[1] == resource.RLIM_INFINITY
    done = subprocess.run(
        [sys.executable, str(script), str(tmp_path)],
        env={"PYTHONPATH": str(Path(__file__).parents[2]), "PATH": ""},
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: signal.signal(signal.SIGXFSZ, signal.SIG_IGN),
    )
    assert done.returncode == 0, done.stderr
    reason, count = done.stdout.split()
    assert reason == "STORAGE_FULL"
    assert 4 <= int(count) < 9


# The environment


async def test_only_the_owner_can_read_the_directory(tmp_path: Path) -> None:
    async with open_tiers(tmp_path) as store:
        await store.put(some_contents(1))
    directory = tmp_path / "warm"
    assert directory.stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in directory.iterdir()} == {0o600}


async def test_another_format_is_refused(tmp_path: Path) -> None:
    async with open_tiers(tmp_path) as store:
        await store.put(some_contents(1))
    with lmdb.open(str(tmp_path / "warm"), max_dbs=4) as environment:
        meta = environment.open_db(b"meta", create=False)
        with environment.begin(write=True, db=meta) as transaction:
            transaction.put(b"format", b"99")
    with pytest.raises(FailedPrecondition) as caught:
        async with open_tiers(tmp_path):
            pass
    assert caught.value.reason is ErrorReason.SCHEMA_MISMATCH


async def test_puts_that_wait_together_share_a_sync(tmp_path: Path) -> None:
    async with open_tiers(tmp_path) as store:
        groups = [some_contents(1, seed=f"g{number}-") for number in range(100)]
        writes, commits = store.warm.write_count, store.warm.commit_count
        await asyncio.gather(*map(store.put, groups))
        assert store.warm.write_count - writes >= 100
        assert store.warm.commit_count - commits < 30


async def test_a_cancelled_put_leaves_the_others_alone(tmp_path: Path) -> None:
    async with open_tiers(tmp_path) as store:
        groups = [some_contents(1, seed=f"g{number}-") for number in range(10)]
        tasks = [asyncio.create_task(store.put(group)) for group in groups]
        await asyncio.sleep(0)
        tasks[3].cancel()
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        assert [index for index, outcome in enumerate(outcomes) if outcome is not None] == [3]


async def test_a_read_that_began_before_a_delete_brings_nothing_back(tmp_path: Path) -> None:
    async with open_tiers(tmp_path) as store:
        contents = some_contents(20)
        for key in contents:
            await store.put(contents)
            store.hot.discard(list(contents))
            await asyncio.gather(store.get([key]), store.delete([key]), return_exceptions=True)
            assert store.hot.get(key) is None


# Listing of S3, and the reconciler


async def test_cold_pages_hold_every_content_and_nothing_else(tmp_path: Path, s3: S3Server) -> None:
    contents = {**some_contents(7, tenant_id="a"), **some_contents(5, tenant_id="b.c")}
    async with open_on(tmp_path, s3, s3_prefix="p/") as store:
        assert await store.list_keys(Tier.COLD, None, 10) == ()
        await store.put(contents)
        await until_drained(store)
        (s3.objects / BUCKET / "p" / "a" / "stranger.txt").write_bytes(b"not a content")
        (s3.objects / BUCKET / "elsewhere").write_bytes(b"not under the prefix")
        for limit in (1, 3, 1000):
            listed: list[StoredContent] = []
            while page := await store.list_keys(Tier.COLD, listed[-1].key if listed else None, limit):
                assert len(page) <= limit
                listed += page
            assert len(listed) == len(contents)
            assert {stored.key for stored in listed} == set(contents)


class FixedCatalog:
    """The part of UnitStore that the reconciler uses."""

    def __init__(self, known: set[ContentKey]) -> None:
        self.known = known

    async def existing_content(self, tenant_id: str, keys: Sequence[tuple[str, str]]) -> frozenset[tuple[str, str]]:
        return frozenset(pair for pair in keys if ContentKey(tenant_id, *pair) in self.known)


def reconciler(catalog: FixedCatalog, store: ContentTiers, clock: SettableClock) -> Reconciler:
    return Reconciler(catalog, store, clock, grace_s=3600)  # type: ignore[arg-type]


async def test_orphans_leave_every_tier_and_known_and_young_contents_stay(tmp_path: Path, s3: S3Server) -> None:
    clock = SettableClock()
    known, orphans, young = (some_contents(10, seed=seed) for seed in "koy")
    other_tenant = some_contents(3, seed="o", tenant_id="other")
    async with open_on(tmp_path, s3, clock=clock) as store:
        await store.put({**known, **orphans, **other_tenant})
        await until_drained(store)
        # S3 stamps its own time, so ours has to pass it
        clock.time = max(s.stored_time for s in await store.list_keys(Tier.COLD, None, 100)) + timedelta(hours=2)
        await store.put(young)
        task = reconciler(FixedCatalog({*known, *list(other_tenant)[:1]}), store, clock)
        survey = await task.survey()
        assert (survey.warm.scanned_count, survey.warm.orphan_count, survey.warm.removed_count) == (33, 12, 0)
        assert survey.cold.orphan_count >= 12  # to S3's clock the young ones are old too; the store spares them
        result = await task.run()
        assert (result.warm.orphan_count, result.warm.removed_count) == (12, 12)
        await until_drained(store)
        left = {**known, **young, **dict(list(other_tenant.items())[:1])}
        assert {s.key for s in await store.list_keys(Tier.WARM, None, 100)} == set(left)
        assert s3.names(BUCKET) == names_of(left)
        assert await store.get(list(left)) == left
        assert (await task.run()).removed_count == 0


async def test_orphans_that_only_s3_has_are_removed(tmp_path: Path, s3: S3Server) -> None:
    clock = SettableClock()
    contents = some_contents(5)
    async with open_on(tmp_path / "gone", s3) as store:
        await store.put(contents)
        await until_drained(store)
        newest = max(s.stored_time for s in await store.list_keys(Tier.COLD, None, 100))
    known = set(list(contents)[:2])
    async with open_on(tmp_path / "new", s3, clock=clock) as store:
        task = reconciler(FixedCatalog(known), store, clock)
        clock.time = newest + timedelta(seconds=3599)
        assert (await task.run()).orphan_count == 0
        clock.time = newest + timedelta(seconds=3602)
        result = await task.run()
        assert (result.cold.scanned_count, result.cold.orphan_count, result.cold.removed_count) == (5, 3, 3)
        await until_drained(store)
        assert s3.names(BUCKET) == names_of(list(known))


async def test_an_object_that_another_process_stored_again_is_spared(tmp_path: Path, s3: S3Server) -> None:
    """The listing was old, S3's own time is looked at again before the removal."""
    contents = some_contents(1)
    (key,) = contents
    async with open_on(tmp_path / "a", s3) as writer, open_on(tmp_path / "b", s3) as other:
        await writer.put(contents)
        await until_drained(writer)
        ((stored,),) = (await other.list_keys(Tier.COLD, None, 10),)
        await other.delete_stored_before([key], stored.stored_time)
        await until_drained(other)
        assert s3.names(BUCKET) == [object_name(key)]
        await other.delete_stored_before([key], stored.stored_time + timedelta(seconds=3))
        await until_drained(other)
        assert s3.names(BUCKET) == []


async def test_a_content_put_again_while_the_reconciler_looks_is_spared(tmp_path: Path) -> None:
    clock = SettableClock()
    contents = some_contents(3)
    first, *_ = contents

    class WritingCatalog(FixedCatalog):
        async def existing_content(self, tenant_id: str, keys: Sequence[tuple[str, str]]) -> frozenset[tuple[str, str]]:
            found = await super().existing_content(tenant_id, keys)
            await store.put({first: contents[first]})
            return found

    async with open_tiers(tmp_path, clock=clock) as store:
        await store.put(contents)
        clock.advance(7200)
        with pytest.raises(Unavailable):  # warm is done, cold is away
            await reconciler(WritingCatalog(set()), store, clock).run()
        assert [s.key for s in await store.list_keys(Tier.WARM, None, 10)] == [first]


async def test_two_reconcilers_side_by_side(tmp_path: Path, s3: S3Server) -> None:
    clock = SettableClock()
    known, orphans = some_contents(50, seed="k"), some_contents(50, seed="o")
    async with open_on(tmp_path, s3, clock=clock) as store:
        await store.put({**known, **orphans})
        await until_drained(store)
        clock.time = max(s.stored_time for s in await store.list_keys(Tier.COLD, None, 100)) + timedelta(hours=2)
        catalog = FixedCatalog(set(known))
        await asyncio.gather(*(reconciler(catalog, store, clock).run() for _ in range(2)))
        await until_drained(store)
        assert s3.names(BUCKET) == names_of(known)
        assert await store.get(list(known)) == known

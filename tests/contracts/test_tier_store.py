"""The contract of ports.TierStore, on the in-memory oracle and on LMDB with a real S3."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from graphsvc.domain.errors import ErrorReason, Unavailable
from graphsvc.domain.units import Tier
from graphsvc.ports import ContentKey, TierStore
from tests.support.memory_tiers import MemoryTiers
from tests.support.s3_server import S3Server, s3_server
from tests.support.tier_case import SettableClock, content_of, key_of, open_tiers, some_contents


@pytest.fixture(scope="module")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with s3_server(tmp_path_factory.mktemp("s3")) as server:
        yield server


@pytest.fixture
def clock() -> SettableClock:
    return SettableClock()


@pytest.fixture(params=["memory", "real", "real-without-hot", "real-cold-acknowledged"])
async def store(
    request: pytest.FixtureRequest, tmp_path: Path, clock: SettableClock, tenant_id: str
) -> AsyncIterator[TierStore]:
    if request.param == "memory":
        yield MemoryTiers(clock)
        return
    s3: S3Server = request.getfixturevalue("s3")
    async with open_tiers(
        tmp_path,
        endpoint=s3.endpoint,
        access_key=s3.access_key,
        secret_key=s3.secret_key,
        s3_prefix=f"{tenant_id}/",
        clock=clock,
        hot_bytes=0 if request.param == "real-without-hot" else 2**20,
        write_acknowledgement="cold" if request.param == "real-cold-acknowledged" else "warm",
    ) as real:
        yield real


async def is_pending(store: TierStore, key: ContentKey) -> bool:
    try:
        await store.get([key])
    except Unavailable as error:
        return error.reason is ErrorReason.CONTENT_PENDING and int(error.metadata["retry_delay_ms"]) > 0
    return False


async def listed(store: TierStore, limit: int = 100) -> list[ContentKey]:
    keys: list[ContentKey] = []
    while page := await store.list_keys(Tier.WARM, keys[-1] if keys else None, limit):
        assert len(page) <= limit
        keys += [stored.key for stored in page]
    return keys


async def test_what_was_put_is_read(store: TierStore) -> None:
    contents = some_contents(5)
    await store.put(contents)
    assert await store.get(list(contents)) == contents
    assert await store.get(list(contents)) == contents


async def test_nothing_asked_for_is_nothing(store: TierStore) -> None:
    await store.put({})
    await store.delete([])
    assert await store.get([]) == {}
    assert await listed(store) == []


async def test_a_content_that_is_nowhere_is_pending(store: TierStore) -> None:
    key = key_of("absent", b"x")
    assert await is_pending(store, key)
    contents = some_contents(1)
    await store.put(contents)
    with pytest.raises(Unavailable):
        await store.get([*contents, key])


@pytest.mark.parametrize("size", [0, 1, 4096, 2**20])
async def test_every_size_comes_back_byte_for_byte(store: TierStore, size: int) -> None:
    contents = some_contents(1, size)
    await store.put(contents)
    assert await store.get(list(contents)) == contents


async def test_odd_names(store: TierStore) -> None:
    content = "naïve 日本語".encode()
    contents = {
        key_of("u", content, tenant): content for tenant in ("a/b", "..", "a b+c%", "日本", "x" * 60, "A", "a", "a.b")
    }
    await store.put(contents)
    assert await store.get(list(contents)) == contents
    assert set(await listed(store)) == set(contents)


async def test_two_tenants_and_two_versions_do_not_meet(store: TierStore) -> None:
    first, second = content_of("one"), content_of("two")
    contents = {
        key_of("u", first, "a"): first,
        key_of("u", second, "a"): second,
        key_of("u", first, "b"): first,
    }
    await store.put(contents)
    await store.delete([key_of("u", first, "a")])
    assert await is_pending(store, key_of("u", first, "a"))
    left = {key: content for key, content in contents.items() if key != key_of("u", first, "a")}
    assert await store.get(list(left)) == left


async def test_deleted_is_gone_and_twice_is_no_fault(store: TierStore) -> None:
    contents = some_contents(3)
    keys = list(contents)
    await store.put(contents)
    await store.get(keys)
    await store.delete(keys[:1])
    await store.delete(keys[:1])
    assert await is_pending(store, keys[0])
    assert set(await listed(store)) == set(keys[1:])


async def test_put_delete_put(store: TierStore) -> None:
    contents = some_contents(1)
    (key,) = contents
    for _ in range(3):
        await store.put(contents)
        assert await store.get([key]) == contents
        await store.delete([key])
        assert await is_pending(store, key)
    await store.put(contents)
    assert await store.get([key]) == contents


async def test_a_thousand_in_one_put(store: TierStore) -> None:
    contents = some_contents(1000)
    await store.put(contents)
    assert await store.get(list(contents)) == contents
    assert sorted(await listed(store), key=repr) == sorted(contents, key=repr)


@pytest.mark.parametrize("limit", [1, 3, 7, 8])
async def test_pages_hold_every_key_once_in_order(store: TierStore, limit: int) -> None:
    contents = {**some_contents(4, tenant_id="b"), **some_contents(3, tenant_id="a")}
    await store.put(contents)
    keys = await listed(store, limit)
    assert len(keys) == 7
    assert set(keys) == set(contents)
    assert [key.tenant_id for key in keys] == ["a"] * 3 + ["b"] * 4


async def test_a_page_continues_after_a_key_that_has_gone(store: TierStore) -> None:
    contents = some_contents(4)
    await store.put(contents)
    keys = await listed(store)
    await store.delete([keys[1]])
    assert [stored.key for stored in await store.list_keys(Tier.WARM, keys[1], 10)] == keys[2:]


async def test_stored_time_is_that_of_the_last_put(store: TierStore, clock: SettableClock) -> None:
    contents = some_contents(1)
    await store.put(contents)
    assert [stored.stored_time for stored in await store.list_keys(Tier.WARM, None, 1)] == [clock.now()]
    clock.advance(0.000001)
    await store.put(contents)
    assert [stored.stored_time for stored in await store.list_keys(Tier.WARM, None, 1)] == [clock.now()]


async def test_delete_stored_before_spares_what_was_put_again(store: TierStore, clock: SettableClock) -> None:
    contents = some_contents(3)
    first, second, third = contents
    await store.put(contents)
    clock.advance(10)
    cutoff = clock.now()
    await store.put({second: contents[second]})
    await store.delete([third])
    assert await store.delete_stored_before([first, second, third], cutoff) == 2
    assert await is_pending(store, first)
    assert await store.get([second]) == {second: contents[second]}
    assert await store.delete_stored_before([second], cutoff + timedelta(microseconds=1)) == 1
    assert await is_pending(store, second)


async def test_writers_side_by_side(store: TierStore) -> None:
    groups = [some_contents(20, seed=f"w{number}-") for number in range(20)]
    await asyncio.gather(*map(store.put, groups))
    everything = {key: content for group in groups for key, content in group.items()}
    assert await store.get(list(everything)) == everything
    await asyncio.gather(*(store.delete(list(group)) for group in groups[:10]))
    assert set(await listed(store)) == {key for group in groups[10:] for key in group}

"""The hot tier: bounded by bytes, least recently used first out."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphsvc.tiers.hot import ENTRY_OVERHEAD_BYTES, HotTier
from tests.support.tier_case import some_contents

SIZE = 1000
ENTRY = SIZE + ENTRY_OVERHEAD_BYTES


def test_what_was_kept_is_read() -> None:
    hot = HotTier(10 * ENTRY)
    contents = some_contents(3, SIZE)
    hot.keep(contents, hot.epoch)
    assert {key: hot.get(key) for key in contents} == contents
    assert hot.size_bytes == 3 * ENTRY


def test_the_least_recently_used_makes_room() -> None:
    hot = HotTier(3 * ENTRY)
    contents = some_contents(4, SIZE)
    first, second, third, fourth = contents
    hot.keep({key: contents[key] for key in (first, second, third)}, hot.epoch)
    assert hot.get(first) is not None
    hot.keep({fourth: contents[fourth]}, hot.epoch)
    assert hot.get(second) is None
    assert all(hot.get(key) is not None for key in (first, third, fourth))
    assert hot.size_bytes == 3 * ENTRY


def test_a_content_larger_than_the_whole_evicts_nothing() -> None:
    hot = HotTier(2 * ENTRY)
    small, large = some_contents(2, SIZE), some_contents(1, 3 * ENTRY, seed="large")
    hot.keep({**small, **large}, hot.epoch)
    assert len(hot) == 2
    assert all(hot.get(key) is not None for key in small)


def test_zero_capacity_keeps_nothing() -> None:
    hot = HotTier(0)
    hot.keep({next(iter(some_contents(1))): b""}, hot.epoch)
    assert (len(hot), hot.size_bytes) == (0, 0)


def test_the_same_key_again_counts_once() -> None:
    hot = HotTier(10 * ENTRY)
    contents = some_contents(1, SIZE)
    for _ in range(3):
        hot.keep(contents, hot.epoch)
    assert (len(hot), hot.size_bytes) == (1, ENTRY)


def test_what_was_read_before_a_removal_is_not_kept_after_it() -> None:
    hot = HotTier(10 * ENTRY)
    contents = some_contents(1, SIZE)
    before = hot.epoch
    hot.discard(contents)
    hot.keep(contents, before)
    assert len(hot) == 0


@pytest.mark.parametrize("key_count", [1, 3])
def test_discard_gives_the_bytes_back(key_count: int) -> None:
    hot = HotTier(10 * ENTRY)
    contents = some_contents(3, SIZE)
    hot.keep(contents, hot.epoch)
    hot.discard(list(contents)[:key_count])
    hot.discard(list(contents)[:key_count])
    assert hot.size_bytes == (3 - key_count) * ENTRY


@given(
    capacity=st.integers(0, 20_000),
    steps=st.lists(st.tuples(st.sampled_from("pgd"), st.integers(0, 9), st.integers(0, 4000)), max_size=60),
)
def test_the_bound_holds_and_the_sum_is_right(capacity: int, steps: list[tuple[str, int, int]]) -> None:
    hot = HotTier(capacity)
    keys = list(some_contents(10))
    for step, index, size in steps:
        key = keys[index]
        if step == "p":
            hot.keep({key: bytes(size)}, hot.epoch)
        elif step == "g":
            hot.get(key)
        else:
            hot.discard([key])
        held = [content for content in map(hot.get, keys) if content is not None]
        assert hot.size_bytes == sum(len(content) + ENTRY_OVERHEAD_BYTES for content in held) <= capacity

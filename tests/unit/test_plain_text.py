"""The plain-text adapter: prices are those of the payload as rendered (gate B1)."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import entry_points

import pytest
import tiktoken
from hypothesis import given, settings
from hypothesis import strategies as st

from adapters.plain_text import PlainTextAdapter
from graphsvc.domain.rendering import render_content
from graphsvc.domain.units import ContextUnitKind, unit_id_for
from graphsvc.ports import Block, VendorAdapter
from graphsvc.ranking.tokens import PRICING_ENCODINGS, TiktokenCounter

ADAPTER: VendorAdapter = PlainTextAdapter()


def blocks(contents: Sequence[str]) -> list[Block]:
    return [
        Block(unit_id_for("t", "a", "s", str(n)), ContextUnitKind.OBSERVATION, content, 0.5)
        for n, content in enumerate(contents)
    ]


@settings(max_examples=200, deadline=None)
@given(st.lists(st.text(st.characters(codec="utf-8")), max_size=6))
def test_B1_the_price_is_the_size_of_the_payload(counter: TiktokenCounter, contents: list[str]) -> None:
    units = blocks(contents)
    for encoding in PRICING_ENCODINGS:
        priced = ADAPTER.envelope_overhead(encoding, counter) + sum(
            ADAPTER.block_overhead(unit.unit_id, encoding, counter)
            + counter.counts(render_content(unit.content) + "\n")[encoding]
            for unit in units
        )
        rendering = ADAPTER.render(units, encoding, counter)
        assert rendering.token_count == priced
        assert rendering.token_count == len(tiktoken_count(counter, rendering.text, encoding))
        assert (rendering.unit_count, rendering.encoding) == (len(units), encoding)


def tiktoken_count(counter: TiktokenCounter, text: str, encoding: str) -> list[int]:
    tokenizer: tiktoken.Encoding = counter._encodings[encoding]
    return tokenizer.encode(text, disallowed_special=())


def test_blocks_keep_their_order_and_their_ids(counter: TiktokenCounter) -> None:
    units = blocks(["first", "second"])
    rendering = ADAPTER.render(units, "o200k_base", counter)
    assert rendering.text == f"[retrieved id={units[0].unit_id}]\nfirst\n[retrieved id={units[1].unit_id}]\nsecond\n"


def test_nothing_to_render(counter: TiktokenCounter) -> None:
    rendering = ADAPTER.render([], "o200k_base", counter)
    assert (rendering.text, rendering.token_count, rendering.unit_count) == ("", 0, 0)


@pytest.mark.parametrize("encoding", PRICING_ENCODINGS)
def test_the_overhead_is_the_header(counter: TiktokenCounter, encoding: str) -> None:
    unit_id = unit_id_for("t", "a", "s", "k")
    overhead = ADAPTER.block_overhead(unit_id, encoding, counter)
    assert overhead == counter.count(f"[retrieved id={unit_id}]\n", encoding)
    assert 8 <= overhead <= 20


def test_it_is_found_by_its_entry_point() -> None:
    points = {point.name: point for point in entry_points(group="graphsvc.adapters")}
    assert points["plain_text"].load() is PlainTextAdapter

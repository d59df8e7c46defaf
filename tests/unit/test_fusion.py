"""Fusion of full-text and vector scores."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphsvc.ranking import fusion

Hit = tuple[str, float | None, float | None]


def hit(unit_id: str, text: float | None, cosine: float | None) -> Hit:
    return unit_id, text, cosine


def fuse(rows: Sequence[Hit]) -> dict[str, float]:
    return fusion.fuse({unit_id: (text, cosine) for unit_id, text, cosine in rows})


scores = st.one_of(st.none(), st.floats(0.001, 100))
cosines = st.one_of(st.none(), st.floats(-1, 1))
hits = st.lists(st.tuples(scores, cosines), max_size=12).map(
    lambda rows: [hit(f"u{n:02}", text, cosine) for n, (text, cosine) in enumerate(rows)]
)


def test_no_hits() -> None:
    assert fuse([]) == {}


def test_the_best_of_both_is_one() -> None:
    assert fuse([hit("a", 8, 0.7), hit("b", 2, 0.2)]) == {"a": pytest.approx(1.0), "b": pytest.approx(0.125)}


def test_a_hit_of_one_search_can_win() -> None:
    fused = fuse([hit("text", 9.0, None), hit("both", 1.0, 0.45), hit("vector", None, 0.6)])
    assert max(fused, key=lambda unit_id: fused[unit_id]) == "text"
    fused = fuse([hit("text", 2.0, None), hit("both", 0.5, 0.3), hit("vector", None, 0.9), hit("t2", 4, None)])
    assert fused["vector"] > fused["both"]


def test_where_one_search_found_nothing_the_other_counts_whole() -> None:
    assert fuse([hit("a", 4, None), hit("b", 1, None)]) == {"a": 1.0, "b": 0.25}
    assert fuse([hit("a", None, 0.8)]) == {"a": 1.0}


def test_the_least_bad_hit_is_not_the_right_one() -> None:
    assert fuse([hit("a", None, 0.25), hit("b", None, 0.22)])["a"] < 0.2
    assert fuse([hit("a", None, -0.5)])["a"] == 0.0


def test_good_hits_that_lie_close_together_stay_good() -> None:
    assert min(fuse([hit("a", None, 0.80), hit("b", None, 0.79), hit("c", None, 0.78)]).values()) > 0.9


@given(hits)
def test_scores_lie_between_0_and_1_and_the_order_has_no_effect(rows: list[Hit]) -> None:
    fused = fuse(rows)
    assert set(fused) == {unit_id for unit_id, _, _ in rows}
    assert all(0 <= score <= 1 for score in fused.values())
    assert fuse(rows[::-1]) == fused


@given(hits)
def test_it_is_monotone(rows: list[Hit]) -> None:
    fused = fuse(rows)

    def at_least(a: float | None, b: float | None) -> bool:
        return b is None or (a is not None and a >= b)

    for a in rows:
        for b in rows:
            if at_least(a[1], b[1]) and at_least(a[2], b[2]):
                assert fused[a[0]] >= fused[b[0]] - 1e-12

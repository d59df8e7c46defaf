"""Selection under a hard budget (gates B3, B5, B6, B7, B12)."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphsvc.domain.budget import Budget
from graphsvc.domain.candidates import Candidate, Disposition, Outcome
from graphsvc.ranking.selection import RankingContext, Selection, Thresholds, select
from graphsvc.ranking.value import PRIOR
from tests.support.candidates import NOW, make_candidate, make_entry

CONTEXT = RankingContext(now=NOW, model="gpt-5")
DEFAULTS = Thresholds()


def run(
    candidates: Sequence[Candidate],
    budget: int,
    *,
    cost: int = 50,
    costs: Mapping[str, int] | None = None,
    thresholds: Thresholds = DEFAULTS,
    **options: object,
) -> Selection:
    prices = {c.entry.unit_id: cost for c in candidates} | dict(costs or {})
    return select(
        candidates,
        prices,
        Budget.of_retrieval(budget),
        predictor=PRIOR,
        thresholds=thresholds,
        context=CONTEXT,
        **options,  # pyright: ignore[reportArgumentType]
    )


def dispositions(selection: Selection) -> dict[str, Disposition]:
    return {r.candidate.entry.unit_id: r.disposition for r in selection.ranked}


def many(count: int, topic_score: float = 0.6, **fields: object) -> list[Candidate]:
    return [make_candidate(f"u{n:05}", topic_score=topic_score, **fields) for n in range(count)]  # pyright: ignore


def test_B3_ranking_is_by_value_per_token_then_unit_id() -> None:
    candidates = many(12)
    selection = run(candidates, 260, costs={"u00007": 25, "u00003": 100})
    assert [r.candidate.entry.unit_id for r in selection.ranked][0] == "u00007"
    assert [r.candidate.entry.unit_id for r in selection.ranked][-1] == "u00003"
    assert [r.rank for r in selection.ranked] == list(range(1, 13))
    middle = [r.candidate.entry.unit_id for r in selection.ranked][1:-1]
    assert middle == sorted(middle)
    ratios = [r.value_cost_ratio for r in selection.ranked]
    assert ratios == sorted(ratios, reverse=True)


def test_B3_few_that_all_fit_go_in_unranked() -> None:
    candidates = [make_candidate(f"u{n}", topic_score=n / 20) for n in range(9)]
    selection = run(candidates, 450)
    assert set(dispositions(selection).values()) == {Disposition.SELECTED}
    assert selection.ledger.ranking_charge == 0
    assert selection.ledger.tokens_spent == 450
    assert any(r.valuation.value < 0.02 for r in selection.ranked)
    assert [r.candidate.entry.unit_id for r in selection.payload_order] == [f"u{n}" for n in range(8, -1, -1)]


@pytest.mark.parametrize(("count", "budget"), [(10, 5000), (9, 449)], ids=["ten", "one token short"])
def test_B3_ten_or_too_dear_are_ranked(count: int, budget: int) -> None:
    candidates = [make_candidate(f"u{n}", topic_score=0.1 if n == 0 else 0.8) for n in range(count)]
    selection = run(candidates, budget)
    assert selection.ledger.ranking_charge == 1
    assert dispositions(selection)["u0"] is Disposition.BELOW_VALUE


def test_B3_few_that_all_fit_leave_out_superseded_units_and_copies() -> None:
    candidates = [
        make_candidate("old", topic_score=0.9, superseded_by="new"),
        make_candidate("new", topic_score=0.5),
        make_candidate("copy", topic_score=0.8, content_sha256="same"),
        make_candidate("first", topic_score=0.9, content_sha256="same"),
    ]
    selection = run(candidates, 200)
    assert dispositions(selection) == {
        "new": Disposition.SELECTED,
        "old": Disposition.SUPERSEDED,
        "first": Disposition.SELECTED,
        "copy": Disposition.DUPLICATE,
    }
    old = next(r for r in selection.ranked if r.candidate.entry.unit_id == "old")
    new = next(r for r in selection.ranked if r.candidate.entry.unit_id == "new")
    assert new.rank < old.rank
    assert "new" in old.detail


@pytest.mark.parametrize("budget", [0, 1, 199])
def test_B5_under_the_minimum_nothing_is_retrieved(budget: int) -> None:
    selection = run(many(3), budget, cost=1)
    assert selection.outcome is Outcome.BUDGET_TOO_SMALL
    assert "insufficient budget" in selection.detail
    assert set(dispositions(selection).values()) == {Disposition.DEFERRED}
    assert (selection.ledger.tokens_spent, selection.ledger.ranking_charge) == (0, 0)


def test_B5_the_minimum_itself_is_enough_and_0_tokens_never_are() -> None:
    assert run(many(3), 200).outcome is Outcome.SELECTED
    assert run(many(3), 0, thresholds=Thresholds(0)).outcome is Outcome.BUDGET_TOO_SMALL
    assert run([], 0).outcome is Outcome.BUDGET_TOO_SMALL


@pytest.mark.parametrize("count", [3, 30])
def test_B6_when_nothing_is_worth_its_tokens_nothing_goes_in(count: int) -> None:
    selection = run(many(count), 5000, thresholds=Thresholds(min_value_threshold=0.5))
    assert selection.outcome is Outcome.BELOW_THRESHOLD
    assert "no candidates above value threshold" in selection.detail
    assert set(dispositions(selection).values()) == {Disposition.DEFERRED}
    assert selection.ledger.tokens_spent == 0
    assert selection.ledger.candidates_deferred == count
    assert all(r.valuation.contributions for r in selection.ranked)


def test_B6_the_threshold_must_be_exceeded() -> None:
    candidates = many(12)
    best = run(candidates, 5000).ranked[0].value_cost_ratio
    assert run(candidates, 5000, thresholds=Thresholds(min_value_threshold=best)).outcome is Outcome.BELOW_THRESHOLD
    assert run(candidates, 5000, thresholds=Thresholds(min_value_threshold=best * 0.999)).outcome is Outcome.SELECTED


def test_B6_single_units_are_left_out_as_below_value() -> None:
    selection = run([*many(9, 0.9), make_candidate("weak", topic_score=0.1), make_candidate("none")], 5000)
    assert dispositions(selection)["weak"] is Disposition.BELOW_VALUE
    assert dispositions(selection)["none"] is Disposition.BELOW_VALUE
    assert selection.ledger.candidates_selected == 9


def test_B6_all_too_improbable() -> None:
    selection = run(many(20, 0.0), 5000, thresholds=Thresholds(min_value_threshold=0))
    assert selection.outcome is Outcome.BELOW_THRESHOLD
    assert set(dispositions(selection).values()) == {Disposition.BELOW_VALUE}


def test_B7_what_does_not_fit_is_skipped_and_the_next_tried() -> None:
    candidates = [make_candidate("huge", topic_score=1.0), *many(11, 0.5)]
    selection = run(candidates, 300, costs={"huge": 290, "u00005": 1_000})
    result = dispositions(selection)
    assert selection.ranked[0].candidate.entry.unit_id == "huge"
    assert result["huge"] is Disposition.SELECTED
    selection = run(candidates, 300, costs={"huge": 400})
    result = dispositions(selection)
    assert selection.ranked[0].candidate.entry.unit_id == "huge"
    assert result["huge"] is Disposition.OVER_BUDGET
    assert Counter(result.values())[Disposition.SELECTED] == 5
    assert selection.ledger.tokens_spent == 250


def test_B7_every_candidate_larger_than_the_budget() -> None:
    selection = run(many(3), 200, cost=201)
    assert selection.outcome is Outcome.NOTHING_FITS
    assert set(dispositions(selection).values()) == {Disposition.OVER_BUDGET}


def test_B7_the_envelope_is_paid_once_and_within_the_budget() -> None:
    selection = run(many(4), 200, envelope_cost=10)
    assert selection.ledger.candidates_selected == 3
    assert selection.ledger.tokens_spent == 160
    assert run(many(4), 210, envelope_cost=10).ledger.tokens_spent == 210
    assert run(many(4), 200, envelope_cost=500).outcome is Outcome.NOTHING_FITS


@pytest.mark.parametrize("outcome", [Outcome.NOTHING_MATCHED, Outcome.NOTHING_PERMITTED, Outcome.ALL_BLOCKED])
def test_no_candidates(outcome: Outcome) -> None:
    selection = run([], 1000, empty_outcome=outcome)
    assert selection.outcome is outcome
    assert selection.detail
    assert selection.ranked == ()
    assert selection.ledger.budget_remaining == 1000


def test_only_superseded_candidates() -> None:
    selection = run([make_candidate("a", topic_score=1, superseded_by="z")], 1000)
    assert selection.outcome is Outcome.NOTHING_MATCHED
    assert "superseded" in selection.detail
    assert dispositions(selection) == {"a": Disposition.SUPERSEDED}


@pytest.mark.parametrize(("count", "charge"), [(10, 1), (20, 1), (21, 2), (100, 5)])
def test_B12_ranking_is_charged_by_the_candidate(count: int, charge: int) -> None:
    selection = run(many(count), 10_000)
    assert selection.ledger.ranking_charge == charge
    ledger = selection.ledger
    assert ledger.tokens_spent + ledger.ranking_charge + ledger.budget_remaining == 10_000


def test_B12_above_100_the_far_and_off_topic_are_deferred_unranked() -> None:
    near = [make_candidate(f"near{n}", hops=2) for n in range(60)]
    far = [make_candidate(f"far{n}", hops=3) for n in range(60)]
    on_topic = [make_candidate(f"topic{n}", topic_score=0.7) for n in range(10)]
    selection = run([*near, *far, *on_topic], 100_000)
    result = dispositions(selection)
    assert all(result[f"far{n}"] is Disposition.DEFERRED for n in range(60))
    assert all(result[f"near{n}"] is Disposition.SELECTED for n in range(60))
    assert all(result[f"topic{n}"] is Disposition.SELECTED for n in range(10))
    assert selection.ledger.ranking_charge == 4
    assert all(not r.valuation.contributions for r in selection.ranked if r.disposition is Disposition.DEFERRED)
    assert all(d is not Disposition.DEFERRED for d in dispositions(run([*near[:30], *far[:30]], 100_000)).values())


def test_B12_where_all_are_far_the_best_are_ranked() -> None:
    selection = run(many(150, 0.0, hops=3), 100_000, thresholds=Thresholds(min_value_probability=0))
    assert Counter(dispositions(selection).values()) == {Disposition.SELECTED: 150}


def test_B12_the_charge_never_exceeds_5_percent() -> None:
    candidates = [make_candidate(f"u{n:04}", topic_score=n / 3000) for n in range(3000)]
    selection = run(candidates, 400)
    assert selection.ledger.ranking_charge == 20
    ranked = [r for r in selection.ranked if r.valuation.contributions]
    assert len(ranked) == 400
    assert min(r.candidate.topic_score for r in ranked) == pytest.approx(2600 / 3000)


def test_B12_a_budget_that_does_not_pay_for_ranking() -> None:
    selection = run(many(30), 19, thresholds=Thresholds(0))
    assert selection.outcome is Outcome.NOTHING_FITS
    assert set(dispositions(selection).values()) == {Disposition.DEFERRED}


def test_the_payload_goes_by_value() -> None:
    candidates = many(12, 0.5) + [make_candidate("best", topic_score=0.9), make_candidate("tie", topic_score=0.5)]
    order = [r.candidate.entry.unit_id for r in run(candidates, 5000, costs={"best": 1000}).payload_order]
    assert order[0] == "best"
    assert order[1:] == sorted(order[1:])


@st.composite
def retrievals(draw: st.DrawFn) -> tuple[list[Candidate], dict[str, int], int, int, Thresholds]:
    count = draw(st.one_of(st.integers(0, 15), st.sampled_from([99, 100, 101, 140])))
    rng = random.Random(draw(st.integers(0, 2**32)))
    candidates = [
        make_candidate(
            f"u{n:03}",
            hops=rng.choice([None, 0, 1, 2, 3, 4]),
            anchor=rng.choice(["task:T", f"u{rng.randrange(max(1, count)):03}"]),
            topic_score=rng.choice([0.0, 0.05, rng.random(), 1.0]),
            content_sha256=rng.choice(["", "", "", "x", "y"]),
            superseded_by=rng.choice(["", "", "", "z"]),
            unreferenced_count=rng.choice([0, 0, 3]),
        )
        for n in range(count)
    ]
    costs = {c.entry.unit_id: rng.choice([1, 12, 50, rng.randrange(1, 3000)]) for c in candidates}
    thresholds = Thresholds(
        draw(st.sampled_from([0, 1, 200])),
        draw(st.sampled_from([0.0, 1e-5, 1e-3])),
        draw(st.sampled_from([0.0, 0.02, 0.5])),
    )
    budget = draw(st.one_of(st.integers(0, 500), st.integers(0, 20_000)))
    return candidates, costs, budget, draw(st.sampled_from([0, 0, 7, 900])), thresholds


@settings(max_examples=300, deadline=None)
@given(retrievals(), st.randoms(use_true_random=False))
def test_B7_never_over_budget_whatever_comes_and_in_any_order(
    retrieval: tuple[list[Candidate], dict[str, int], int, int, Thresholds], rng: random.Random
) -> None:
    candidates, costs, budget, envelope_cost, thresholds = retrieval
    selection = run(candidates, budget, costs=costs, thresholds=thresholds, envelope_cost=envelope_cost)
    ledger = selection.ledger
    chosen = selection.payload_order
    spent = sum(costs[r.candidate.entry.unit_id] for r in chosen) + (envelope_cost if chosen else 0)
    assert ledger.tokens_spent == spent
    assert spent + ledger.ranking_charge <= budget
    assert ledger.budget_remaining >= 0
    assert ledger.ranking_charge <= budget * 0.05
    assert sorted(r.candidate.entry.unit_id for r in selection.ranked) == sorted(costs)
    assert [r.rank for r in selection.ranked] == list(range(1, len(candidates) + 1))
    assert ledger.candidates_selected == len(chosen)
    assert ledger.candidates_selected + ledger.candidates_deferred == len(candidates)
    assert (selection.outcome is Outcome.SELECTED) == bool(chosen)
    assert all(r.detail for r in selection.ranked)
    assert not any(r.candidate.superseded_by for r in chosen)
    assert len({r.candidate.entry.content_sha256 for r in chosen}) == len(chosen)
    shuffled = candidates[:]
    rng.shuffle(shuffled)
    assert run(shuffled, budget, costs=costs, thresholds=thresholds, envelope_cost=envelope_cost) == selection


# ---- atomic groups ------------------------------------------------------------------------------------------------


def grouped(*pairs: tuple[str, str], count: int = 12) -> list[Candidate]:
    """Candidates u00000 ..., of which the first of each pair cannot be read without the second."""
    return [
        replace(candidate, companion_ids=tuple(b for a, b in pairs if a == candidate.entry.unit_id))
        for candidate in many(count)
    ]


def test_an_item_goes_in_whole_or_not_at_all() -> None:
    both = grouped(("u00003", "u00008"), ("u00008", "u00003"))
    for budget in range(200, 700, 25):
        result = dispositions(run(both, budget, costs={"u00003": 10, "u00008": 150}))
        assert result["u00003"] == result["u00008"]


def test_a_header_may_go_alone_and_is_paid_once() -> None:
    chunks = grouped(("u00003", "u00008"), ("u00004", "u00008"))
    selection = run(chunks, 10_000)
    assert selection.ledger.tokens_spent == 12 * 50
    order = [ranked.candidate.entry.unit_id for ranked in selection.payload_order]
    assert order[order.index("u00008") :][1:3] == ["u00003", "u00004"], "the header first, its chunks beside it"
    alone = run(chunks, 210, costs={"u00003": 500, "u00004": 500, "u00008": 20})
    assert dispositions(alone)["u00008"] is Disposition.SELECTED


@pytest.mark.parametrize("count", [5, 12])
def test_who_needs_what_is_left_out_is_left_out(count: int) -> None:
    chain = grouped(("u00001", "u00002"), ("u00002", "u00003"), count=count)
    chain[3] = replace(chain[3], superseded_by="u00004")
    result = dispositions(run(chain, 10_000))
    assert [result[f"u0000{n}"] for n in (1, 2, 3)] == [Disposition.SUPERSEDED] * 3
    blocked = dispositions(run(grouped(("u00001", "u00002"), count=count), 10_000, withheld=frozenset({"u00002"})))
    assert [blocked["u00001"], blocked["u00002"]] == [Disposition.BLOCKED] * 2
    assert blocked["u00000"] is Disposition.SELECTED


@given(
    st.lists(st.tuples(st.integers(0, 19), st.integers(0, 19)), max_size=12),
    st.lists(st.integers(1, 300), min_size=20, max_size=20),
    st.integers(200, 2_000),
)
def test_groups_never_break_the_budget_or_come_apart(
    pairs: list[tuple[int, int]], costs: list[int], budget: int
) -> None:
    names = [(f"u{a:05}", f"u{b:05}") for a, b in pairs if a != b]
    candidates = grouped(*names, count=20)
    selection = run(candidates, budget, costs={f"u{n:05}": cost for n, cost in enumerate(costs)})
    selected = {ranked.candidate.entry.unit_id for ranked in selection.payload_order}
    assert all(b in selected for a, b in names if a in selected)
    assert sum(costs[int(unit_id[1:])] for unit_id in selected) == selection.ledger.tokens_spent <= budget


def test_B4_a_tighter_threshold_lets_less_in() -> None:
    candidates = [make_candidate(f"u{n:05}", topic_score=n / 20) for n in range(20)]
    counts = [run(candidates, 5_000, thresholds=DEFAULTS.times(f)).ledger.candidates_selected for f in (1, 4, 10)]
    assert counts[0] > counts[1] > counts[2] > 0


def test_a_copy_of_what_went_in_as_a_companion_is_a_duplicate() -> None:
    candidates = grouped(("u00003", "u00008"))
    candidates[3] = replace(candidates[3], topic_score=0.9)
    for copy in (8, 9):
        candidates[copy] = replace(candidates[copy], entry=make_entry(f"u{copy:05}", content_sha256="same"))
    assert dispositions(run(candidates, 10_000))["u00009"] is Disposition.DUPLICATE

"""The information-value predictor (gate B2)."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphsvc.domain.candidates import Candidate, CandidateSource, SeedLink, TermStatistics
from graphsvc.domain.units import ContextUnitKind, Direction, EdgeType
from graphsvc.ranking.value import (
    PRIOR,
    PRIOR_REFERENCE_RATES,
    UNREACHABLE,
    Feature,
    Predictor,
    RankingContext,
    attention_half_length,
)
from tests.support.candidates import NOW, make_candidate

CONTEXT = RankingContext(now=NOW, model="gpt-5")


def values(
    *candidates: Candidate,
    costs: dict[str, int] | None = None,
    context: RankingContext = CONTEXT,
    predictor: Predictor = PRIOR,
) -> dict[str, float]:
    prices = costs or {c.entry.unit_id: 100 for c in candidates}
    valuations = predictor.valuations(candidates, prices, context)
    return {c.entry.unit_id: v.value for c, v in zip(candidates, valuations, strict=True)}


def test_B2_distance_and_match_weigh_most_of_the_six_in_the_prior() -> None:
    weights = PRIOR.weights
    high = [weights[Feature.GRAPH_DISTANCE], weights[Feature.EDGE_TYPE_MATCH]]
    medium = [weights[Feature.HISTORICAL_REFERENCE_RATE], weights[Feature.RECENCY]]
    low = [weights[Feature.CONTENT_FRESHNESS], weights[Feature.MODEL_ATTENTION_PROFILE]]
    assert min(high) > max(medium)
    assert min(medium) > max(low)
    assert min(low) > 0
    assert weights[Feature.DEFERRED_IN_SESSION] < 0
    assert set(weights) == set(Feature)


PAIRS = {
    Feature.GRAPH_DISTANCE: (
        make_candidate("better", hops=1, topic_score=0.5),
        make_candidate("worse", hops=2, topic_score=0.55),
    ),
    Feature.EDGE_TYPE_MATCH: (
        make_candidate("better", hops=1, match_count=1, topic_score=0.5),
        make_candidate("worse", hops=1, match_count=0, topic_score=0.55),
    ),
    Feature.HISTORICAL_REFERENCE_RATE: (
        make_candidate("better", topic_score=0.5, kind=ContextUnitKind.DECISION),
        make_candidate("worse", topic_score=0.53, kind=ContextUnitKind.PROGRESS_NOTE),
    ),
    Feature.RECENCY: (
        make_candidate("better", topic_score=0.5),
        make_candidate("worse", topic_score=0.53, age=timedelta(days=30)),
    ),
    Feature.CONTENT_FRESHNESS: (
        make_candidate("better", topic_score=0.5),
        make_candidate("worse", topic_score=0.53, unreferenced_count=3),
    ),
    Feature.MODEL_ATTENTION_PROFILE: (
        make_candidate("better", topic_score=0.5),
        make_candidate("worse", topic_score=0.52),
    ),
    Feature.TOPIC_MATCH: (
        make_candidate("better", topic_score=0.6),
        make_candidate("worse", topic_score=0.3, term_coverage=0.65, kind=ContextUnitKind.DECISION),
    ),
    Feature.QUERY_COVERAGE: (
        make_candidate("better", topic_score=0.5, term_coverage=0.7),
        make_candidate("worse", topic_score=0.55, term_coverage=0.3),
    ),
    Feature.NAME_MATCH: (
        make_candidate("better", topic_score=0.4, lead="Ada Lovelace: mathematician"),
        make_candidate("worse", topic_score=0.6, lead="Grace Hopper: admiral"),
    ),
    Feature.LINKED_TOPIC: (
        make_candidate("better", topic_score=0.1, links=[SeedLink("seed", EdgeType.DEPENDENCY, Direction.OUTGOING, 1)]),
        make_candidate("worse", topic_score=0.3),
    ),
    Feature.SESSION_TOPIC: (
        make_candidate("better", topic_score=0.5, session_id="talk"),
        make_candidate("worse", topic_score=0.52),
    ),
    Feature.SUBSTANCE: (
        make_candidate("better", topic_score=0.5),
        make_candidate("worse", topic_score=0.53),
    ),
    Feature.DEFERRED_IN_SESSION: (
        make_candidate("better", topic_score=0.5),
        make_candidate("worse", topic_score=0.55, lowered=True),
    ),
}
SEED = make_candidate("seed", topic_score=1.0, session_id="talk")
COSTS = {Feature.MODEL_ATTENTION_PROFILE: (2_000, 60_000), Feature.SUBSTANCE: (100, 20)}


@pytest.mark.parametrize("feature", Feature)
def test_B2_taking_out_any_feature_changes_a_ranking(feature: Feature) -> None:
    better, worse = PAIRS[feature]
    cost, worse_cost = COSTS.get(feature, (100, 100))
    costs = {"better": cost, "worse": worse_cost, "seed": 100}
    context = replace(CONTEXT, query="Who was Ada Lovelace?")
    with_it = values(better, worse, SEED, costs=costs, context=context)
    assert with_it["better"] > with_it["worse"]
    without = Predictor("without", PRIOR.intercept, {f: w for f, w in PRIOR.weights.items() if f is not feature})
    without_it = values(better, worse, SEED, costs=costs, context=context, predictor=without)
    assert without_it["better"] < without_it["worse"]


def test_B2_every_contribution_can_be_read_back_and_adds_up() -> None:
    candidate = make_candidate(
        "u",
        hops=2,
        match_count=1,
        topic_score=0.4,
        age=timedelta(days=7),
        unreferenced_count=1,
        kind=ContextUnitKind.DECISION,
    )
    valuation = PRIOR.valuations([candidate], {"u": 4000}, CONTEXT)[0]
    parts = {c.feature: c for c in valuation.contributions}
    assert {name: (c.raw, pytest.approx(c.scaled)) for name, c in parts.items()} == {
        "graph_distance": (2.0, 0.25),
        "edge_type_match": (0.5, 0.5),
        "historical_reference_rate": (0.35, 0.35),
        "recency": (7 * 86_400.0, 0.5),
        "content_freshness": (1.0, 0.5),
        "model_attention_profile": (4000.0, 0.5),
        "topic_match": (0.4, 0.4),
        "query_coverage": (0.4, 0.4),
        "name_match": (0.0, 0.0),
        "linked_topic": (0.0, 0.0),
        "session_topic": (0.0, 0.0),
        "substance": (4000.0, pytest.approx(4000 / 4040)),
        "deferred_in_session": (0.0, 0.0),
    }
    logit = valuation.intercept + sum(c.weight * c.scaled for c in valuation.contributions)
    assert valuation.value == pytest.approx(1 / (1 + 2.718281828459045**-logit))


def test_the_prior_is_a_probability_and_steep_in_the_topic() -> None:
    by_score = values(*(make_candidate(f"{n}", topic_score=n / 10) for n in range(11)))
    assert 0.25 < by_score["10"] < 0.8
    assert by_score["5"] < 0.1 * by_score["10"] < 0.1
    assert by_score["3"] < 0.02
    assert by_score["0"] < 0.002


def test_short_chatter_does_not_win_by_being_short() -> None:
    answer, chatter = make_candidate("answer", topic_score=0.95), make_candidate("chatter", topic_score=0.25)
    costs = {"answer": 400, "chatter": 15}
    by_id = values(answer, chatter, costs=costs)
    assert by_id["answer"] / 400 > by_id["chatter"] / 15


def test_B2_nearer_is_worth_more_and_unreachable_least() -> None:
    by_id = values(*(make_candidate(f"h{n}", hops=n) for n in range(1, 5)), make_candidate("none"))
    assert list(by_id) == sorted(by_id, key=lambda unit_id: -by_id[unit_id])
    assert by_id["h1"] > 0.1
    valuation = PRIOR.valuations([make_candidate("none")], {"none": 1}, CONTEXT)[0]
    assert valuation.contributions[0].raw == UNREACHABLE
    assert valuation.contributions[0].scaled == 0


def test_B2_what_is_near_a_topic_anchor_is_worth_less_than_the_anchor() -> None:
    anchors = [make_candidate("best", hops=0, topic_score=1.0), make_candidate("weak", hops=0, topic_score=0.5)]
    near = [make_candidate("near_best", hops=1, anchor="best"), make_candidate("near_weak", hops=1, anchor="weak")]
    named = make_candidate("near_task", hops=1)
    by_id = values(*anchors, *near, named)
    assert by_id["best"] > by_id["near_best"] > by_id["near_weak"]
    assert by_id["weak"] > by_id["near_weak"]
    assert by_id["near_task"] > by_id["near_best"] > values(make_candidate("far"))["far"]


def test_an_anchor_the_caller_named_counts_as_its_neighbours() -> None:
    named = make_candidate("named", hops=0, sources=[CandidateSource.HANDLE])
    assert values(named)["named"] == values(make_candidate("near", hops=1, anchor="named"))["near"]


def test_reference_rates_from_feedback_replace_the_prior_ones() -> None:
    unit = make_candidate("u", kind=ContextUnitKind.PROGRESS_NOTE)
    learned = replace(CONTEXT, reference_rates={ContextUnitKind.PROGRESS_NOTE: 0.9})
    assert values(unit, context=learned)["u"] > values(unit)["u"]
    assert set(PRIOR_REFERENCE_RATES) == set(ContextUnitKind)


def test_a_timestamp_in_the_future_is_as_recent_as_now() -> None:
    assert values(make_candidate("u", age=timedelta(minutes=-5))) == values(make_candidate("u"))


@pytest.mark.parametrize(
    ("model", "tokens"),
    [
        ("gpt-4-turbo", 1500),
        ("gpt-4o", 3000),
        ("gpt-5.1", 4000),
        ("claude-opus-4-5", 4000),
        ("", 3000),
        ("llama", 3000),
    ],
)
def test_attention_profiles(model: str, tokens: int) -> None:
    assert attention_half_length(model) == tokens


@given(
    hops=st.one_of(st.none(), st.integers(0, 4)),
    topic=st.floats(0, 1),
    kind=st.sampled_from(ContextUnitKind),
    days=st.integers(-1, 100_000),
    unreferenced=st.integers(0, 5000),
    cost=st.integers(1, 10_000_000),
)
def test_values_lie_between_0_and_1(
    hops: int | None, topic: float, kind: ContextUnitKind, days: int, unreferenced: int, cost: int
) -> None:
    candidate = make_candidate(
        "u", hops=hops, topic_score=topic, kind=kind, age=timedelta(days=days), unreferenced_count=unreferenced
    )
    valuation = PRIOR.valuations([candidate], {"u": cost}, CONTEXT)[0]
    assert 0 < valuation.value < 1
    assert all(0 <= c.scaled <= 1 for c in valuation.contributions)


def test_extreme_weights_do_not_overflow() -> None:
    for intercept in (-1e6, 1e6):
        assert values(make_candidate("u"), predictor=Predictor("x", intercept, {}))["u"] in (0.0, 1.0)


def test_a_name_that_several_bear_says_less_and_part_of_a_word_is_no_name() -> None:
    context = replace(CONTEXT, query="Is Java older than Ada?")
    one = make_candidate("one", lead="Java: an island")
    two = make_candidate("two", lead="Java (language): compiled")
    part = make_candidate("part", lead="Javanese: a language")
    short = make_candidate("short", lead="Ada: a person")
    alone = values(one, part, context=context)
    assert alone["one"] > 20 * alone["part"]
    both = values(one, two, part, short, context=context)
    assert alone["one"] > both["one"] == both["two"] > both["part"] == both["short"]


def test_a_name_of_common_words_says_less() -> None:
    context = replace(CONTEXT, query="Which band is Boyzone?", terms=TermStatistics({"band": 0.5, "boyzon": 2.0}, 9.0))
    rare, common = make_candidate("rare", lead="Boyzone: a band"), make_candidate("common", lead="Band: musicians")
    by_id = values(rare, common, make_candidate("none"), context=context)
    assert by_id["rare"] > 10 * by_id["common"] > 10 * by_id["none"]


def test_what_leads_to_a_hub_says_less_and_the_other_way_nothing() -> None:
    seed = make_candidate("seed", topic_score=1.0)

    def worth(way: Direction, in_degree: int) -> float:
        link = SeedLink("seed", EdgeType.DEPENDENCY, way, 1.0)
        return values(seed, make_candidate("u", links=[link], in_degree=in_degree))["u"]

    assert worth(Direction.OUTGOING, 1) > 2 * worth(Direction.OUTGOING, 50)
    assert worth(Direction.INCOMING, 1) == values(seed, make_candidate("u"))["u"]


def test_turns_close_by_say_more_than_those_farther_away() -> None:
    seed = make_candidate("seed", topic_score=1.0)
    near = [make_candidate(f"t{steps}", turns=[("seed", steps)]) for steps in (-2, -1, 1, 2)]
    by_id = values(seed, *near, make_candidate("none"))
    assert by_id["t1"] == by_id["t-1"] > by_id["t2"] == by_id["t-2"] > by_id["none"]

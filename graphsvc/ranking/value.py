"""The information-value predictor: the probability that a candidate is referenced, feature by feature.

A logistic model: value = 1 / (1 + e^-(intercept + Σ weight x scaled)), each feature scaled to [0, 1]. ``PRIOR`` is what
holds before there is feedback; a fitted predictor is another :class:`Predictor` of the same shape.
Source: gates B2, B9; seed selection-budgeted-retrieval, Information Value Predictor Features.
"""

from __future__ import annotations

import heapq
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from functools import lru_cache
from pathlib import PurePosixPath
from types import MappingProxyType

from graphsvc.domain.candidates import (
    NO_TERMS,
    Candidate,
    CandidateSource,
    Contribution,
    TermStatistics,
    Valuation,
)
from graphsvc.domain.units import ContextUnitKind, Direction, EdgeType
from graphsvc.ranking.lexical import rarity

UNREACHABLE = -1.0
"""Raw graph_distance of a candidate that no anchor reaches within max_hops."""

RECENCY_HALF_LIFE_S = 7 * 86_400.0
"""A week: long against a session, so that age decides between weeks and not between turns."""

PRIOR_REFERENCE_RATES: Mapping[ContextUnitKind, float] = MappingProxyType(
    {
        # A correction that is left out repeats the error; rules and decisions bind what comes next.
        ContextUnitKind.CORRECTION: 0.45,
        ContextUnitKind.CONSTRAINT: 0.40,
        ContextUnitKind.DECISION: 0.35,
        # Evidence and state: used when on topic, which the other features say.
        ContextUnitKind.OBSERVATION: 0.25,
        ContextUnitKind.STATE_SNAPSHOT: 0.25,
        # Long, soon stale, and overestimated by predictors that never learn.
        ContextUnitKind.TOOL_RESULT: 0.20,
        # Cheap, and soon worthless outside its session.
        ContextUnitKind.PROGRESS_NOTE: 0.10,
    }
)
"""Share of delivered units that are referenced, by kind, assumed until feedback tells."""

ATTENTION_HALF_LENGTHS: Mapping[str, int] = MappingProxyType(
    {
        "gpt-3.5": 1_000,
        "gpt-4-": 1_500,
        "gpt-4": 3_000,
        "gpt-5": 4_000,
        "claude": 4_000,
        "gemini": 6_000,
        "deepseek": 2_500,
    }
)
"""Tokens of one block at which a model family is expected to use half of it; the longest prefix of the model id counts.

Longer blocks are read less closely, by older models sooner. Assumed, not measured, and therefore of little weight."""
DEFAULT_ATTENTION_HALF_LENGTH = 3_000


class Feature(StrEnum):
    """What a value is made of."""

    GRAPH_DISTANCE = "graph_distance"
    """Raw: hops from the nearest anchor. Scaled: 2^-hops, times the anchor's strength; 0 when unreachable."""
    EDGE_TYPE_MATCH = "edge_type_match"
    """Raw: share of the path's edges whose type is wanted. Scaled: the same times the anchor's strength."""
    HISTORICAL_REFERENCE_RATE = "historical_reference_rate"
    """Raw and scaled: share of delivered units of this kind that were referenced."""
    RECENCY = "recency"
    """Raw: age in seconds. Scaled: 2^-(age / half-life)."""
    CONTENT_FRESHNESS = "content_freshness"
    """Raw: times delivered in this session without being referenced. Scaled: 2^-times."""
    MODEL_ATTENTION_PROFILE = "model_attention_profile"
    """Raw: tokens of the block. Scaled: 1 / (1 + tokens / half length of the model's family)."""
    TOPIC_MATCH = "topic_match"
    """Raw and scaled: the fused topic score."""
    QUERY_COVERAGE = "query_coverage"
    """Raw and scaled: share of the query's terms, weighed by rarity, that the unit holds."""
    NAME_MATCH = "name_match"
    """Raw: 1 when the unit's name (its leading "Name: ", or its file's) stands in the query. Scaled: less for a
    name that several candidates bear, or of words that are common among the hits."""
    LINKED_TOPIC = "linked_topic"
    """Raw and scaled: topic score of the best hit that leads here, by a dependency or as a turn close by."""
    SESSION_TOPIC = "session_topic"
    """Raw and scaled: mean topic score of the two best other candidates of the same agent and session."""
    SUBSTANCE = "substance"
    """Raw: tokens of the block. Scaled: tokens / (tokens + 40): a few words answer little."""
    DEFERRED_IN_SESSION = "deferred_in_session"
    """Raw and scaled: 1 when it was deferred five steps in a row in this session."""


@dataclass(frozen=True, slots=True)
class RankingContext:
    """What values depend on besides the candidates.

    Attributes:
        now: aware UTC.
        model: model id that the payload is for; empty: none named.
        query: what is wanted, in words.
        terms: of the query.
        reference_rates: by kind, from feedback; a kind that is not there has its prior rate.
    """

    now: datetime
    model: str = ""
    query: str = ""
    terms: TermStatistics = NO_TERMS
    reference_rates: Mapping[ContextUnitKind, float] = field(default_factory=dict[ContextUnitKind, float])


@dataclass(frozen=True, slots=True)
class Predictor:
    """A logistic value predictor.

    Attributes:
        version: names the weights in logs.
        intercept: the logit of a candidate about which every feature says nothing.
        weights: of each feature; one that is left out does not count.
    """

    version: str
    intercept: float
    weights: Mapping[Feature, float]

    def valuations(
        self, candidates: Sequence[Candidate], costs: Mapping[str, int], context: RankingContext
    ) -> list[Valuation]:
        """The value of each candidate with every feature's contribution, in the order given.

        Args:
            candidates: all of one retrieval: the strength of a topic anchor depends on its own topic score.
            costs: tokens of each candidate's block, by unit_id.
            context: time, model, reference rates.
        """
        others = _Others.of(candidates, context)
        return [
            self._valuation(features_of(candidate, costs[candidate.entry.unit_id], context, others))
            for candidate in candidates
        ]

    def _valuation(self, features: Iterable[tuple[Feature, float, float]]) -> Valuation:
        contributions: list[Contribution] = []
        logit = self.intercept
        for feature, raw, scaled in features:
            weight = self.weights.get(feature, 0.0)
            logit += weight * scaled
            contributions.append(Contribution(feature.value, raw, scaled, weight))
        return Valuation(_sigmoid(logit), self.intercept, tuple(contributions))


TOPIC_ANCHOR_STRENGTH = 0.2
"""How much the best topic hits count as anchors, against a task or unit that the caller named, for a perfect match.

What is near them, whatever the edge and its direction, is often only near. Fitted beside linked_topic on linked
passages and on code, graph_distance from a topic hit has a fifth of the weight that it has from a named anchor."""

LINK_STRENGTHS: Mapping[tuple[EdgeType, Direction], float] = MappingProxyType(
    {(EdgeType.DEPENDENCY, Direction.OUTGOING): 1.0}
)
"""How much a hit that has such an edge to a unit speaks for it. Measured on linked passages and on code: what a hit
needs or mentions is wanted next; what mentions the hit, or was made from it, hardly."""
TURN_STRENGTHS: Mapping[int, float] = MappingProxyType({1: 0.3, 2: 0.15})
"""How much a hit so many turns away speaks for a unit of its session. Set by hand, since no set that is fitted on has
turns; from 0.2 to 0.35, recall on chats moves by 1.5 points."""
NAMED_SEED_SHARE = 0.5
"""Of what a linked hit says, the part it says only when the query names it."""
SUBSTANCE_TOKENS = 40
MIN_NAME_LENGTH = 4
MAX_NAME_LENGTH = 60

PRIOR = Predictor(
    version="prior-2",
    intercept=-11.1,
    weights=MappingProxyType(
        {
            # Structure weighs most of the six. A neighbour of a named anchor along a wanted edge has about 0.1, along
            # another, or two hops away, 0.02.
            Feature.GRAPH_DISTANCE: 8.0,
            Feature.EDGE_TYPE_MATCH: 1.8,
            # From the least referenced kind to the most 0.6 in the logit: a factor of two in the value.
            Feature.HISTORICAL_REFERENCE_RATE: 1.7,
            # A month against now: a factor of two.
            Feature.RECENCY: 0.8,
            # Once ignored costs a quarter of the value, twice a third.
            Feature.CONTENT_FRESHNESS: 0.6,
            Feature.MODEL_ATTENTION_PROFILE: 0.3,
            # Fitted together with the intercept (docs/retrieval_quality.md). Steep on purpose: dividing by cost is safe
            # only for a probability, and similarity is none. No short text wins by being short.
            Feature.TOPIC_MATCH: 4.4,
            Feature.QUERY_COVERAGE: 2.6,
            Feature.NAME_MATCH: 4.5,
            Feature.LINKED_TOPIC: 5.7,
            Feature.SESSION_TOPIC: 1.5,
            Feature.SUBSTANCE: 1.5,
            # A quarter of the odds.
            Feature.DEFERRED_IN_SESSION: -1.4,
        }
    ),
)
"""The unfitted predictor."""


@dataclass(frozen=True, slots=True)
class _Others:
    """What a candidate's features need of the other candidates of its retrieval.

    Attributes:
        strengths: how much each topic anchor counts, by unit_id.
        topics: topic score by unit_id.
        names: name match by unit_id, scaled.
        best_of_session: the three best (topic score, unit_id) of each agent and session.
    """

    strengths: Mapping[str, float]
    topics: Mapping[str, float]
    names: Mapping[str, float]
    best_of_session: Mapping[tuple[str, str], Sequence[tuple[float, str]]]

    @classmethod
    def of(cls, candidates: Sequence[Candidate], context: RankingContext) -> _Others:
        sessions: dict[tuple[str, str], list[tuple[float, str]]] = {}
        for candidate in candidates:
            entry = candidate.entry
            sessions.setdefault((entry.agent_id, entry.session_id), []).append((candidate.topic_score, entry.unit_id))
        return cls(
            strengths={
                c.entry.unit_id: TOPIC_ANCHOR_STRENGTH * c.topic_score for c in candidates if _is_topic_anchor(c)
            },
            topics={candidate.entry.unit_id: candidate.topic_score for candidate in candidates},
            names=_name_matches(candidates, context),
            best_of_session={session: heapq.nlargest(3, scored) for session, scored in sessions.items()},
        )


def features_of(
    candidate: Candidate, cost: int, context: RankingContext, others: _Others
) -> list[tuple[Feature, float, float]]:
    """(feature, raw, scaled) of a candidate, in the order of :class:`Feature`."""
    entry = candidate.entry
    path = candidate.path
    distance, proximity, match, scaled_match = UNREACHABLE, 0.0, 0.0, 0.0
    if path is not None:
        distance, match = float(path.hop_count), path.edge_type_match
        if not _is_topic_anchor(candidate):
            # An anchor the caller named counts as its neighbours do: it may stand in the context already.
            strength = others.strengths.get(path.unit_ids[0], 1.0)
            proximity = strength * 2.0 ** -max(1, path.hop_count)
            scaled_match = strength * match
    rate = context.reference_rates.get(entry.kind, PRIOR_REFERENCE_RATES[entry.kind])
    age_s = max(0.0, (context.now - entry.timestamp).total_seconds())
    name = others.names.get(entry.unit_id, 0.0)
    linked = _linked_topic(candidate, others)
    session = _session_topic(candidate, others)
    return [
        (Feature.GRAPH_DISTANCE, distance, proximity),
        (Feature.EDGE_TYPE_MATCH, match, scaled_match),
        (Feature.HISTORICAL_REFERENCE_RATE, rate, rate),
        (Feature.RECENCY, age_s, 2.0 ** -(age_s / RECENCY_HALF_LIFE_S)),
        (Feature.CONTENT_FRESHNESS, float(candidate.unreferenced_count), 2.0**-candidate.unreferenced_count),
        (Feature.MODEL_ATTENTION_PROFILE, float(cost), 1.0 / (1.0 + cost / attention_half_length(context.model))),
        (Feature.TOPIC_MATCH, candidate.topic_score, candidate.topic_score),
        (Feature.QUERY_COVERAGE, candidate.term_coverage, candidate.term_coverage),
        (Feature.NAME_MATCH, float(name > 0), name),
        (Feature.LINKED_TOPIC, linked, linked),
        (Feature.SESSION_TOPIC, session, session),
        (Feature.SUBSTANCE, float(cost), cost / (cost + SUBSTANCE_TOKENS)),
        (Feature.DEFERRED_IN_SESSION, float(candidate.lowered), float(candidate.lowered)),
    ]


def _linked_topic(candidate: Candidate, others: _Others) -> float:
    """What the best hit says that leads here; less along an edge to a unit that many lead to."""
    near = candidate.neighbourhood
    damped = 1.0 + math.log(max(1, near.in_degree))
    said = [
        LINK_STRENGTHS.get((link.edge_type, link.direction), 0.0)
        * link.weight
        * others.topics.get(link.seed_id, 0.0)
        * (1.0 - NAMED_SEED_SHARE + NAMED_SEED_SHARE * others.names.get(link.seed_id, 0.0))
        / damped
        for link in near.links
    ]
    said += [TURN_STRENGTHS.get(abs(steps), 0.0) * others.topics.get(seed_id, 0.0) for seed_id, steps in near.turns]
    return max(said, default=0.0)


def _session_topic(candidate: Candidate, others: _Others) -> float:
    entry = candidate.entry
    best = others.best_of_session[entry.agent_id, entry.session_id]
    return sum([score for score, unit_id in best if unit_id != entry.unit_id][:2]) / 2


_NAME_END = re.compile(r":\s")
_QUALIFIER = re.compile(r"\s*\([^()]*\)$")


def name_of(candidate: Candidate) -> str:
    """What the unit is called: what stands before ": " on its first line, else its file's stem; empty: nothing."""
    line = candidate.lead.partition("\n")[0]
    end = _NAME_END.search(line)
    name = _QUALIFIER.sub("", line[: end.start()]) if end else ""
    if not 2 <= len(name) <= MAX_NAME_LENGTH:
        name = PurePosixPath(candidate.entry.path).stem
    return name.casefold()


def _name_matches(candidates: Sequence[Candidate], context: RankingContext) -> dict[str, float]:
    """Of each candidate whose name stands in the query: 1, less for a name that several bear or of common words."""
    text = f" {' '.join(_WORDS.findall(context.query.casefold()))} "
    bearers: dict[str, list[str]] = {}
    for candidate in candidates:
        name = name_of(candidate)
        if len(name) >= MIN_NAME_LENGTH:
            bearers.setdefault(name, []).append(candidate.entry.unit_id)
    return {
        unit_id: min(1.0 / (1.0 + math.log(len(unit_ids))), rarity(context.terms, name))
        for name, unit_ids in bearers.items()
        if f" {' '.join(_WORDS.findall(name))} " in text
        for unit_id in unit_ids
    }


_WORDS = re.compile(r"\w+")


@lru_cache(maxsize=256)
def attention_half_length(model: str) -> int:
    """Tokens of a block at which the model's family is expected to use half of it."""
    known = [prefix for prefix in ATTENTION_HALF_LENGTHS if model.startswith(prefix)]
    return ATTENTION_HALF_LENGTHS[max(known, key=len)] if known else DEFAULT_ATTENTION_HALF_LENGTH


def _is_topic_anchor(candidate: Candidate) -> bool:
    """Whether it is an anchor only because it matches the query best.

    Its distance, 0, then says nothing that its topic score does not say, and what is near it is only as likely to be
    wanted as it is itself.
    """
    return (
        candidate.path is not None and candidate.path.hop_count == 0 and CandidateSource.HANDLE not in candidate.sources
    )


def _sigmoid(logit: float) -> float:
    if logit >= 0:
        return 1.0 / (1.0 + math.exp(-logit))
    exponential = math.exp(logit)
    return exponential / (1.0 + exponential)

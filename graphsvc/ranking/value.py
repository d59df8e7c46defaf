"""The information-value predictor: the probability that a candidate is referenced, feature by feature.

A logistic model: value = 1 / (1 + e^-(intercept + Σ weight x scaled)), each feature scaled to [0, 1]. ``PRIOR`` is what
holds before there is feedback; a fitted predictor is another :class:`Predictor` of the same shape.
Source: gates B2, B9; seed selection-budgeted-retrieval, Information Value Predictor Features.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from functools import lru_cache
from types import MappingProxyType

from graphsvc.domain.candidates import Candidate, CandidateSource, Contribution, Valuation
from graphsvc.domain.units import ContextUnitKind

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


@dataclass(frozen=True, slots=True)
class RankingContext:
    """What values depend on besides the candidates.

    Attributes:
        now: aware UTC.
        model: model id that the payload is for; empty: none named.
        reference_rates: by kind, from feedback; a kind that is not there has its prior rate.
    """

    now: datetime
    model: str = ""
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
        strengths = {c.entry.unit_id: TOPIC_ANCHOR_STRENGTH * c.topic_score for c in candidates if _is_topic_anchor(c)}
        return [
            self.valuation(
                candidate,
                cost=costs[candidate.entry.unit_id],
                context=context,
                anchor_strength=strengths.get(candidate.path.unit_ids[0], 1.0) if candidate.path else 0.0,
            )
            for candidate in candidates
        ]

    def valuation(
        self, candidate: Candidate, *, cost: int, context: RankingContext, anchor_strength: float
    ) -> Valuation:
        """The value of one candidate.

        Args:
            candidate: what is known about it.
            cost: tokens of its block, above 0.
            context: time, model, reference rates.
            anchor_strength: how much its anchor counts, in [0, 1]: 1 for a task or unit the caller named.
        """
        contributions: list[Contribution] = []
        logit = self.intercept
        for feature, raw, scaled in _features(candidate, cost, context, anchor_strength):
            weight = self.weights.get(feature, 0.0)
            logit += weight * scaled
            contributions.append(Contribution(feature.value, raw, scaled, weight))
        return Valuation(_sigmoid(logit), self.intercept, tuple(contributions))


TOPIC_ANCHOR_STRENGTH = 0.4
"""How much the best topic hits count as anchors, against a task or unit that the caller named, for a perfect match.

What is near them is often only near: measured on multi-hop questions over linked passages, 0.3 to 0.5 gains recall at
every budget, and 1 loses what the links had won."""

PRIOR = Predictor(
    version="prior-1",
    # Nine against: with the two or so that the weak features give an ordinary unit, one with no other merit than to be
    # there is referenced once in a thousand times.
    intercept=-9.0,
    weights=MappingProxyType(
        {
            # Structure weighs most of the six. A neighbour of a named anchor along a wanted edge has about 0.13, along
            # another 0.02; two hops away 0.03.
            Feature.GRAPH_DISTANCE: 6.4,
            Feature.EDGE_TYPE_MATCH: 1.8,
            # From the least referenced kind to the most 0.6 in the logit: a factor of two in the value.
            Feature.HISTORICAL_REFERENCE_RATE: 1.7,
            # A month against now: a factor of two.
            Feature.RECENCY: 0.8,
            # Once ignored costs a quarter of the value, twice a third.
            Feature.CONTENT_FRESHNESS: 0.6,
            Feature.MODEL_ATTENTION_PROFILE: 0.3,
            # Steep on purpose: dividing by cost is safe only for a probability, and similarity is none. The best hit of
            # a query has 0.6, one of half its score 0.04, one of a third under 0.02: so measured on multi-hop questions
            # over encyclopedia passages, with the topic alone. No short text wins by being short.
            Feature.TOPIC_MATCH: 7.5,
        }
    ),
)
"""The unfitted predictor."""


def _features(
    candidate: Candidate, cost: int, context: RankingContext, anchor_strength: float
) -> list[tuple[Feature, float, float]]:
    """(feature, raw, scaled) of a candidate."""
    entry = candidate.entry
    path = candidate.path
    distance, proximity, match, scaled_match = UNREACHABLE, 0.0, 0.0, 0.0
    if path is not None:
        distance, match = float(path.hop_count), path.edge_type_match
        if not _is_topic_anchor(candidate):
            # An anchor the caller named counts as its neighbours do: it may stand in the context already.
            proximity = anchor_strength * 2.0 ** -max(1, path.hop_count)
            scaled_match = anchor_strength * match
    rate = context.reference_rates.get(entry.kind, PRIOR_REFERENCE_RATES[entry.kind])
    age_s = max(0.0, (context.now - entry.timestamp).total_seconds())
    return [
        (Feature.GRAPH_DISTANCE, distance, proximity),
        (Feature.EDGE_TYPE_MATCH, match, scaled_match),
        (Feature.HISTORICAL_REFERENCE_RATE, rate, rate),
        (Feature.RECENCY, age_s, 2.0 ** -(age_s / RECENCY_HALF_LIFE_S)),
        (Feature.CONTENT_FRESHNESS, float(candidate.unreferenced_count), 2.0**-candidate.unreferenced_count),
        (Feature.MODEL_ATTENTION_PROFILE, float(cost), 1.0 / (1.0 + cost / attention_half_length(context.model))),
        (Feature.TOPIC_MATCH, candidate.topic_score, candidate.topic_score),
    ]


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

"""Fusion of full-text and vector scores into one topic score.

Source: retrieval_findings.md: a scaled sum is measured better than reciprocal rank fusion (6.8 points of recall).
"""

from __future__ import annotations

from collections.abc import Sequence

from graphsvc.domain.candidates import TopicHit

FULL_TEXT_SHARE = 0.5
VECTOR_SHARE = 0.5
GOOD_COSINE = 0.5
"""Cosine of a good match. When the best hit of a query stays under it, no vector score reaches 1: a query that matches
nothing does not make the least bad hit look like the right one."""
NOISE_COSINE = 0.2
"""Cosine that unrelated texts have; a lower minimum among the hits is taken instead, never a higher one, so that of a
few hits that are all good the last is not worth nothing."""


def fuse(hits: Sequence[TopicHit]) -> dict[str, float]:
    """The topic score in [0, 1] of each hit by unit_id: half full text, half vector, each scaled to [0, 1].

    Full text is scaled by the best score of the query; cosine from the least (at most NOISE_COSINE) to the best (at
    least GOOD_COSINE) of the query. A hit that one search did not find has 0 there, and can still win. Where one search
    found nothing at all, the other counts whole. Higher scores never lower the result; the order of hits has no effect.
    """
    texts = [hit.full_text_score for hit in hits if hit.full_text_score is not None]
    cosines = [hit.vector_score for hit in hits if hit.vector_score is not None]
    best_text = max(texts, default=0.0)
    low = min([NOISE_COSINE, *cosines])
    high = max([GOOD_COSINE, *cosines])
    text_share = FULL_TEXT_SHARE if cosines else 1.0
    vector_share = VECTOR_SHARE if texts else 1.0

    def score(hit: TopicHit) -> float:
        total = 0.0
        if hit.full_text_score is not None and best_text > 0:
            total += text_share * max(0.0, hit.full_text_score) / best_text
        if hit.vector_score is not None:
            total += vector_share * (hit.vector_score - low) / (high - low)
        return min(1.0, max(0.0, total))

    return {hit.entry.unit_id: score(hit) for hit in hits}

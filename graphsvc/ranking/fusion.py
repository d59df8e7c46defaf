"""Fusion of full-text and vector scores into one topic score.

Source: retrieval_findings.md: a scaled sum is measured better than reciprocal rank fusion (6.8 points of recall).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from graphsvc.ports import Vector

CENTRE_PSEUDO_COUNT = 20
"""Hits with no direction of their own that are taken to be in the middle besides."""
MIN_LENGTH = 1e-6
FULL_TEXT_SHARE = 0.5
VECTOR_SHARE = 0.5
GOOD_COSINE = 0.5
"""Cosine of a good match. When the best hit of a query stays under it, no vector score reaches 1: a query that matches
nothing does not make the least bad hit look like the right one."""
NOISE_COSINE = 0.2
"""Cosine that unrelated texts have; a lower minimum among the hits is taken instead, never a higher one, so that of a
few hits that are all good the last is not worth nothing."""


def centred(query: Vector, sample: Sequence[Vector]) -> Vector:
    """The query's vector as seen from near the middle of its best hits, unit length.

    What all hits share (a project's name, a speaker) then says nothing, as a word that all texts hold says nothing. The
    middle counts for ``n / (n + 20)``: of a few hits, what they share is what was asked for.
    """
    if not sample:
        return query
    moved = query - np.sum(np.stack(sample), axis=0) / (len(sample) + CENTRE_PSEUDO_COUNT)
    length = float(np.linalg.norm(moved))
    return moved / np.float32(length) if length > MIN_LENGTH else query


def fuse(scores: Mapping[str, tuple[float | None, float | None]]) -> dict[str, float]:
    """The topic score in [0, 1] of each unit: half full text, half vector, each scaled to [0, 1].

    Full text is scaled by the best score of the query; cosine from the least (at most NOISE_COSINE) to the best (at
    least GOOD_COSINE) of the query. A unit without words or without vector has 0 there, and can still win. Where one
    search found nothing at all, the other counts whole. Higher scores never lower the result; order has no effect.

    Args:
        scores: BM25 and cosine of each unit; None: no word in common, or no vector.
    """
    texts = [text for text, _ in scores.values() if text is not None]
    cosines = [cosine for _, cosine in scores.values() if cosine is not None]
    best_text = max(texts, default=0.0)
    low = min([NOISE_COSINE, *cosines])
    high = max([GOOD_COSINE, *cosines])
    text_share = FULL_TEXT_SHARE if cosines else 1.0
    vector_share = VECTOR_SHARE if texts else 1.0

    def score(text: float | None, cosine: float | None) -> float:
        total = 0.0
        if text is not None and best_text > 0:
            total += text_share * max(0.0, text) / best_text
        if cosine is not None:
            total += vector_share * (cosine - low) / (high - low)
        return min(1.0, max(0.0, total))

    return {unit_id: score(text, cosine) for unit_id, (text, cosine) in scores.items()}

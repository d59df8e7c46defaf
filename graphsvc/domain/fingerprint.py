"""The fingerprint of a query: one value for all ways to write the same words.

Source: seed negative-retrieval-constraints, query_fingerprint; gate C5 (its exact half).
"""

from __future__ import annotations

import hashlib
import unicodedata

FINGERPRINT_VERSION = "v1"
"""Part of what is hashed: a change of the normalisation is a new version, and old fingerprints stay what they were."""


def normalise_query(text: str) -> str:
    """The query in NFKC, case-folded, runs of white space as one space, none at the ends."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    # Case folding can leave the normal form (U+0345 is one case), so it is applied again.
    return " ".join(unicodedata.normalize("NFKC", folded).split())


def query_fingerprint(text: str) -> str:
    """Hex sha256 of the version and the normalised query; empty for a query without text, which nothing can reject.

    Raises:
        UnicodeEncodeError: a lone surrogate, which the edge has refused.
    """
    normalised = normalise_query(text)
    if not normalised:
        return ""
    return hashlib.sha256(f"{FINGERPRINT_VERSION}\x1f{normalised}".encode()).hexdigest()

"""A tokenizer for the gates that shares no code with the service: tiktoken on the vocabularies of bpe_openai.

tiktoken finds a vocabulary in its cache under the sha1 of the address that it would fetch it from.
"""

from __future__ import annotations

import gzip
import hashlib
from importlib import resources
from pathlib import Path

import pytest
import tiktoken

_ADDRESS = "https://openaipublic.blob.core.windows.net/encodings/{}.tiktoken"


class IndependentTokens:
    """Counts of a text in cl100k_base and o200k_base, special tokens taken as text."""

    def __init__(self, directory: Path, patch: pytest.MonkeyPatch) -> None:
        for name in ("cl100k_base", "o200k_base"):
            packed = resources.files("bpe_openai").joinpath("data", f"{name}.tiktoken.gz").read_bytes()
            cached = directory / hashlib.sha1(_ADDRESS.format(name).encode()).hexdigest()
            cached.write_bytes(gzip.decompress(packed))
        patch.setenv("TIKTOKEN_CACHE_DIR", str(directory))
        self._encodings = {name: tiktoken.get_encoding(name) for name in ("cl100k_base", "o200k_base")}

    def count(self, text: str, encoding: str) -> int:
        """Tokens of the text."""
        return len(self._encodings[encoding].encode(text, disallowed_special=()))

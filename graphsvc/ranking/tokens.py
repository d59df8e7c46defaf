"""Exact token counts without a download; the only importer of tiktoken.

tiktoken fetches its vocabularies at first use. The package bpe-openai ships the same files, so they are unpacked under
the names that tiktoken looks for in its cache, checked against the digests it expects.
Source: local_stack.md, Token counts without a download; gate B1.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import re
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import tiktoken
from tiktoken.model import MODEL_TO_ENCODING, encoding_name_for_model
from tiktoken_ext import openai_public  # pyright: ignore[reportMissingTypeStubs]

from graphsvc.domain.errors import ErrorReason, InvalidArgument, LocalFault

DEFAULT_ENCODING: Final = "o200k_base"
PRICING_ENCODINGS: Final = ("cl100k_base", "o200k_base")
"""Every unit is counted in these when it is written."""

_VOCABULARY_URL = "https://openaipublic.blob.core.windows.net/encodings/{}.tiktoken"
_VOCABULARY_SHA256 = {
    "cl100k_base": "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7",
    "o200k_base": "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d",
}
_SAME_VOCABULARY = {"o200k_harmony": "o200k_base"}
"""Encodings that differ in special tokens only, which are plain text here."""

_FOREIGN_PREFIXES = ("claude", "gemini", "deepseek")
"""Models whose tokenizer is not at hand. The plain-text payload is counted in o200k_base for them: an estimate of what
the vendor will bill, exact only as the budget's own unit."""

_WHITE_SPACE = r"\t\v\f \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
_MAX_RUN = 100_000
_RUN = re.compile(rf"[{_WHITE_SPACE}]{{64}}[{_WHITE_SPACE}]*")
"""A run of white space without a line end. One that no line end follows is a piece of its own in both patterns; over a
million characters of it exhaust the pattern engine's stack, so from 100,000 on it is cut out before."""

_environment_lock = threading.Lock()


class TiktokenCounter:
    """Implements ports.TokenCounter. Thread-safe: counting holds no state and runs outside the interpreter lock.

    Speed: about 7 MB/s a core on source text; 1 MiB of any one character takes under a second.
    """

    def __init__(self, cache_dir: Path) -> None:
        """Loads both vocabularies (about 0.5 s, 70 MB).

        Args:
            cache_dir: directory to unpack them into; made if absent; shared safely by several processes.

        Raises:
            LocalFault: ARTIFACT_UNAVAILABLE, the directory cannot be written; ARTIFACT_HASH_MISMATCH, the package's
                files are not the expected ones.
        """
        unpack_vocabularies(cache_dir)
        constructors: dict[str, Callable[[], dict[str, object]]] = {
            "cl100k_base": openai_public.cl100k_base,
            "o200k_base": openai_public.o200k_base,
        }
        self._encodings: dict[str, tiktoken.Encoding] = {}
        with _environment_lock:
            before = os.environ.get("TIKTOKEN_CACHE_DIR")
            os.environ["TIKTOKEN_CACHE_DIR"] = str(cache_dir)
            try:
                for name, construct in constructors.items():
                    encoding = tiktoken.Encoding(**construct())  # pyright: ignore[reportArgumentType]
                    # The dictionary is needed to build the tokenizer and never again: 40 MB less to hold.
                    encoding._mergeable_ranks = {}  # pyright: ignore[reportPrivateUsage]
                    self._encodings[name] = encoding
            finally:
                if before is None:
                    del os.environ["TIKTOKEN_CACHE_DIR"]
                else:
                    os.environ["TIKTOKEN_CACHE_DIR"] = before

    def encoding_for(self, model: str) -> str:
        """The encoding's name for a model id, by tiktoken's table and prefixes.

        An empty id gives o200k_base; so do, as an estimate, models of Anthropic, Google and DeepSeek.

        Raises:
            InvalidArgument: MODEL_UNKNOWN when no encoding is known for it, or one that no unit is priced in.
        """
        if not model or model.startswith(_FOREIGN_PREFIXES):
            return DEFAULT_ENCODING
        try:
            name = encoding_name_for_model(model)
        except KeyError:
            name = ""
        name = _SAME_VOCABULARY.get(name, name)
        if name not in self._encodings:
            known = ", ".join(sorted(m for m, e in MODEL_TO_ENCODING.items() if e in self._encodings and "-" in m))
            raise InvalidArgument(
                ErrorReason.MODEL_UNKNOWN,
                "no tokenizer is known for this model: send an id that begins with claude, gemini, deepseek, gpt-5, "
                f"gpt-oss-, gpt-4o-, gpt-4.1-, o1-, o3-, o4-mini-, or one of {known}; "
                f"or leave it empty for {DEFAULT_ENCODING}",
                field="model",
            )
        return name

    def count(self, text: str, encoding: str) -> int:
        """Tokens of the text, special tokens being plain text.

        Args:
            text: anything; a lone surrogate counts as U+FFFD.
            encoding: "cl100k_base" or "o200k_base".

        Raises:
            InvalidArgument: FIELD_INVALID for another encoding.
        """
        tokenizer = self._encodings.get(encoding)
        if tokenizer is None:
            raise InvalidArgument(
                ErrorReason.FIELD_INVALID, f"encoding must be one of {', '.join(self._encodings)}", field="encoding"
            )
        total = 0
        for part, is_piece in _parts(text):
            if is_piece:
                total += len(tokenizer._encode_single_piece(part))  # pyright: ignore[reportPrivateUsage]
            else:
                total += len(tokenizer.encode_ordinary(part))
        return total

    def counts(self, text: str) -> dict[str, int]:
        """Tokens of the text in every encoding the service prices with."""
        return {name: self.count(text, name) for name in PRICING_ENCODINGS}

    def counts_many(self, texts: Sequence[str]) -> list[dict[str, int]]:
        """Counts of each text, in order; meant for a worker thread, where other threads run meanwhile."""
        return [self.counts(text) for text in texts]


def _parts(text: str) -> Iterator[tuple[str, bool]]:
    """Parts of the text whose counts add up to its own; True: the part is one piece of the patterns.

    Of a run of white space before another character both patterns leave the last character to the next piece; at the
    end of the text they take the whole run.
    """
    if len(text) < _MAX_RUN:
        yield text, False
        return
    position = 0
    for run in _RUN.finditer(text):
        following = text[run.end() : run.end() + 1]
        if run.end() - run.start() < _MAX_RUN or following in ("\r", "\n"):
            continue
        end = run.end() - 1 if following else run.end()
        yield text[position : run.start()], False
        yield text[run.start() : end], True
        position = end
    yield text[position:], False


def unpack_vocabularies(cache_dir: Path) -> None:
    """Returns when the cache holds both vocabularies under tiktoken's names, whole and checked.

    Each is written beside its place and renamed, so another process sees the old file, the new one, or none.

    Raises:
        LocalFault: as TiktokenCounter.
    """
    for name, digest in _VOCABULARY_SHA256.items():
        target = cache_dir / hashlib.sha1(_VOCABULARY_URL.format(name).encode(), usedforsecurity=False).hexdigest()
        try:
            if target.is_file() and hashlib.sha256(target.read_bytes()).hexdigest() == digest:
                continue
            vocabulary = gzip.decompress((_packed_vocabularies() / f"{name}.tiktoken.gz").read_bytes())
            if hashlib.sha256(vocabulary).hexdigest() != digest:
                raise LocalFault(
                    ErrorReason.ARTIFACT_HASH_MISMATCH,
                    f"bpe-openai's {name} is not the expected file: install another version",
                )
            cache_dir.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(dir=cache_dir, prefix=f".{name}.", delete=False) as file:
                file.write(vocabulary)
            os.replace(file.name, target)
        except OSError as error:
            raise LocalFault(
                ErrorReason.ARTIFACT_UNAVAILABLE,
                f"cannot unpack the {name} vocabulary into {cache_dir}: {error.strerror}",
            ) from error


def _packed_vocabularies() -> Path:
    """The folder that bpe-openai ships them in, found without importing it: that would load every vocabulary it has."""
    spec = find_spec("bpe_openai")
    if spec is None or spec.origin is None:
        raise LocalFault(ErrorReason.ARTIFACT_UNAVAILABLE, "the package bpe-openai is missing: install graphsvc again")
    return Path(spec.origin).parent / "data"

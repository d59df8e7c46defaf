"""Token counts: exact, offline, bounded."""

from __future__ import annotations

import multiprocessing
import os
import random
import re
import socket
import string
import subprocess
import sys
import time
from pathlib import Path

import pytest
import tiktoken
from hypothesis import given, settings
from hypothesis import strategies as st

from graphsvc.domain.errors import ErrorReason, InvalidArgument, LocalFault
from graphsvc.ranking import tokens
from graphsvc.ranking.tokens import (
    DEFAULT_ENCODING,
    PRICING_ENCODINGS,
    TiktokenCounter,
    unpack_vocabularies,
)


@pytest.fixture(scope="session")
def reference(counter: TiktokenCounter, vocabulary_dir: Path) -> dict[str, tiktoken.Encoding]:
    """tiktoken's own encodings out of the unpacked cache."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TIKTOKEN_CACHE_DIR", str(vocabulary_dir))
        return {name: tiktoken.get_encoding(name) for name in PRICING_ENCODINGS}


def test_loading_and_counting_need_no_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object, **kwargs: object) -> None:
        raise AssertionError("network was used")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    monkeypatch.setattr("requests.get", refuse)
    counter = TiktokenCounter(tmp_path)
    assert counter.counts("hello world") == {"cl100k_base": 2, "o200k_base": 2}
    assert "TIKTOKEN_CACHE_DIR" not in os.environ


@settings(max_examples=300, deadline=None)
@given(st.text())
def test_counts_are_those_of_tiktoken(
    counter: TiktokenCounter, reference: dict[str, tiktoken.Encoding], text: str
) -> None:
    for name, encoding in reference.items():
        assert counter.count(text, name) == len(encoding.encode(text, disallowed_special=()))


def test_known_counts(counter: TiktokenCounter) -> None:
    assert counter.count("", DEFAULT_ENCODING) == 0
    assert counter.count("tiktoken is great!", "cl100k_base") == 6
    assert counter.count("<|endoftext|>", "cl100k_base") == 7
    assert counter.count("a\ud800b", DEFAULT_ENCODING) == counter.count("a\ufffdb", DEFAULT_ENCODING)


def test_many_are_counted_in_order(counter: TiktokenCounter) -> None:
    texts = ["", "one", "two words", "<|endoftext|>", "中文" * 50]
    assert counter.counts_many(texts) == [counter.counts(text) for text in texts]


def test_an_unknown_encoding_is_refused(counter: TiktokenCounter) -> None:
    with pytest.raises(InvalidArgument) as caught:
        counter.count("x", "p50k_base")
    assert caught.value.reason is ErrorReason.FIELD_INVALID


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from([" ", "\t", "\u3000", "x", "\n", "/", ".", "\r", "中", "7", "\u2028"]), st.integers(1, 40)
        ),
        max_size=8,
    )
)
def test_cutting_out_long_runs_is_exact(
    counter: TiktokenCounter,
    reference: dict[str, tiktoken.Encoding],
    runs: list[tuple[str, int]],
) -> None:
    text = "".join(character * length for character, length in runs)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tokens, "_MAX_RUN", 3)
        patch.setattr(tokens, "_RUN", re.compile(tokens._RUN.pattern.replace("{64}", "{2}")))
        assert "{2}" in tokens._RUN.pattern
        for name, encoding in reference.items():
            assert counter.count(text, name) == len(encoding.encode_ordinary(text))


MEBIBYTE = {
    "a": "a" * 2**20,
    "spaces": " " * 2**20,
    "spaces before a letter": " " * (2**20 - 1) + "x",
    "spaces before a line end": " " * (2**20 - 1) + "\n",
    "spaces just short of a long run": (" " * 99_999 + "\n") * 10,
    "line ends": "\n" * 2**20,
    "tabs": "\t" * (2**20 - 1) + ".",
    "dashes": "-" * 2**20,
    "digits": "7" * 2**20,
    "cjk": "中" * (2**20 // 3),
    "letters": "".join(random.Random(7).choices(string.ascii_lowercase, k=2**20)),
    "marks": "\u0301" * 2**19,
}


@pytest.mark.parametrize("text", MEBIBYTE.values(), ids=MEBIBYTE.keys())
def test_a_mebibyte_of_one_run_does_not_blow_up(counter: TiktokenCounter, text: str) -> None:
    started = time.process_time()
    counts = counter.counts(text)
    assert time.process_time() - started < 20  # about one second; quadratic would be hours
    assert all(0 < count <= len(text.encode()) for count in counts.values())


def test_a_run_too_long_for_the_pattern_engine_has_its_true_count(counter: TiktokenCounter) -> None:
    # 128 spaces are one token in cl100k_base; the last space goes with the letter.
    assert counter.count(" " * (128 * 10_000 + 1) + "x", "cl100k_base") == 10_001


@pytest.mark.parametrize(
    ("model", "encoding"),
    [
        ("", "o200k_base"),
        ("gpt-5", "o200k_base"),
        ("gpt-5.1-codex", "o200k_base"),
        ("gpt-4o", "o200k_base"),
        ("gpt-4o-mini-2024-07-18", "o200k_base"),
        ("gpt-4.1-nano", "o200k_base"),
        ("o3", "o200k_base"),
        ("gpt-oss-20b", "o200k_base"),
        ("gpt-4", "cl100k_base"),
        ("gpt-4-turbo", "cl100k_base"),
        ("gpt-3.5-turbo", "cl100k_base"),
        ("claude-opus-4-5", "o200k_base"),
        ("gemini-3-pro", "o200k_base"),
        ("deepseek-chat", "o200k_base"),
    ],
)
def test_encoding_of_a_model(counter: TiktokenCounter, model: str, encoding: str) -> None:
    assert counter.encoding_for(model) == encoding


@pytest.mark.parametrize("model", ["llama-3", "gpt2", "text-davinci-003", "GPT-4", "gpt-9"])
def test_an_unknown_model_is_refused_and_told_what_is_known(counter: TiktokenCounter, model: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        counter.encoding_for(model)
    assert caught.value.reason is ErrorReason.MODEL_UNKNOWN
    assert "gpt-4o" in caught.value.message
    assert "claude" in caught.value.message


def test_a_damaged_vocabulary_is_replaced(tmp_path: Path) -> None:
    unpack_vocabularies(tmp_path)
    files = sorted(tmp_path.iterdir())
    whole = [file.read_bytes() for file in files]
    files[0].write_bytes(b"damaged")
    unpack_vocabularies(tmp_path)
    assert sorted(tmp_path.iterdir()) == files
    assert [file.read_bytes() for file in files] == whole


def test_several_processes_unpack_into_one_directory(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=unpack_vocabularies, args=(tmp_path / "new",)) for _ in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
    assert [process.exitcode for process in processes] == [0, 0, 0]
    assert len(list((tmp_path / "new").iterdir())) == 2


def test_the_package_that_ships_them_is_not_loaded(tmp_path: Path) -> None:
    code = "import sys; from pathlib import Path; from graphsvc.ranking.tokens import *; "
    code += "TiktokenCounter(Path(sys.argv[1]))"
    code += "; print('bpe_openai' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_a_directory_that_cannot_be_written_is_a_clear_fault(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("x")
    with pytest.raises(LocalFault) as caught:
        TiktokenCounter(blocked / "cache")
    assert caught.value.reason is ErrorReason.ARTIFACT_UNAVAILABLE

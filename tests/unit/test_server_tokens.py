"""Page tokens and revision tokens."""

from __future__ import annotations

import base64
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphsvc.domain.errors import ErrorReason, InvalidArgument, PermissionDenied
from graphsvc.domain.tenancy import Principal
from graphsvc.server.tokens import MAX_TOKEN_BYTES, TokenSigner

SECRET = bytes(range(32))
PRINCIPAL = Principal("t1", "a1", "s1", frozenset())
LISTING = ("units", "decision", "", "task", "", "src/")
POSITION = (datetime(2026, 3, 4, 5, 6, 7, 891011, tzinfo=UTC), "abcdefghijkl")


@pytest.fixture
def signer():
    return TokenSigner(SECRET)


def reason_of(call, *args):
    with pytest.raises((InvalidArgument, PermissionDenied)) as caught:
        call(*args)
    return caught.value.reason


def test_a_short_secret_is_refused():
    assert reason_of(TokenSigner, b"x" * 31) is ErrorReason.SETTING_INVALID


def test_page_token_gives_back_its_position(signer):
    assert signer.read_page_token(PRINCIPAL, LISTING, signer.page_token(PRINCIPAL, LISTING, POSITION)) == POSITION


def test_no_page_token_is_the_first_page(signer):
    assert signer.read_page_token(PRINCIPAL, LISTING, "") is None


@pytest.mark.parametrize("field", ["tenant_id", "agent_id", "session_id"])
def test_page_token_of_another_caller_is_invalid(signer, field):
    token = signer.page_token(PRINCIPAL, LISTING, POSITION)
    other = replace(PRINCIPAL, **{field: "x"})
    assert reason_of(signer.read_page_token, other, LISTING, token) is ErrorReason.PAGE_TOKEN_INVALID


@pytest.mark.parametrize("place", range(len(LISTING)))
def test_page_token_of_another_list_is_invalid(signer, place):
    token = signer.page_token(PRINCIPAL, LISTING, POSITION)
    other = (*LISTING[:place], LISTING[place] + "x", *LISTING[place + 1 :])
    assert reason_of(signer.read_page_token, PRINCIPAL, other, token) is ErrorReason.PAGE_TOKEN_INVALID


def test_scopes_do_not_run_together(signer):
    token = signer.page_token(replace(PRINCIPAL, agent_id="ab", session_id="c"), LISTING, POSITION)
    shifted = replace(PRINCIPAL, agent_id="a", session_id="bc")
    assert reason_of(signer.read_page_token, shifted, LISTING, token) is ErrorReason.PAGE_TOKEN_INVALID


def test_revision_token_gives_back_its_bookmarks(signer):
    assert signer.read_revision_token("t1", signer.revision_token("t1", ("FB:a", "FB:b"))) == ("FB:a", "FB:b")
    assert signer.read_revision_token("t1", signer.revision_token("t1", ())) == ()


def test_revision_token_of_another_tenant_is_denied(signer):
    token = signer.revision_token("t1", ("FB:a",))
    assert reason_of(signer.read_revision_token, "t2", token) is ErrorReason.OTHER_TENANT


def test_revision_token_does_not_name_the_tenant(signer):
    token = signer.revision_token("a-telling-name", ("FB:a",))
    assert b"telling" not in base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))


def test_another_services_token_is_invalid(signer):
    other = TokenSigner(SECRET[::-1])
    assert (
        reason_of(signer.read_revision_token, "t1", other.revision_token("t1", ("FB:a",)))
        is ErrorReason.REVISION_TOKEN_INVALID
    )


def test_one_kind_of_token_is_not_the_other(signer):
    page = signer.page_token(PRINCIPAL, LISTING, POSITION)
    revision = signer.revision_token("t1", ("FB:a",))
    assert reason_of(signer.read_revision_token, "t1", page) is ErrorReason.REVISION_TOKEN_INVALID
    assert reason_of(signer.read_page_token, PRINCIPAL, LISTING, revision) is ErrorReason.PAGE_TOKEN_INVALID


@given(st.data())
def test_any_changed_byte_makes_a_token_invalid(data):
    signer = TokenSigner(SECRET)
    token = signer.revision_token("t1", ("FB:a",))
    raw = bytearray(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
    place = data.draw(st.integers(0, len(raw) - 1))
    raw[place] ^= data.draw(st.integers(1, 255))
    changed = base64.urlsafe_b64encode(bytes(raw)).decode().rstrip("=")
    assert reason_of(signer.read_revision_token, "t1", changed) is ErrorReason.REVISION_TOKEN_INVALID


@given(st.text(max_size=80))
def test_any_text_is_refused_politely(text):
    signer = TokenSigner(SECRET)
    assert reason_of(signer.read_revision_token, "t1", text) is ErrorReason.REVISION_TOKEN_INVALID
    if text:
        assert reason_of(signer.read_page_token, PRINCIPAL, LISTING, text) is ErrorReason.PAGE_TOKEN_INVALID


def test_an_overlong_token_is_not_read(signer):
    assert (
        reason_of(signer.read_revision_token, "t1", "A" * (MAX_TOKEN_BYTES + 1)) is ErrorReason.REVISION_TOKEN_INVALID
    )

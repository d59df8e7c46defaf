import pytest

from graphsvc.domain.candidates import NO_TERMS
from graphsvc.ranking.lexical import bm25, rarity, term_coverage, term_frequencies, term_statistics


def scores(query: str, *texts: str) -> list[float]:
    documents = [term_frequencies(text) for text in texts]
    return bm25(term_statistics(query, documents), documents)


def coverages(query: str, *texts: str) -> list[float]:
    documents = [term_frequencies(text) for text in texts]
    return term_coverage(term_statistics(query, documents), documents)


def test_a_rarer_word_counts_more():
    rare, common, neither = scores("refresh token", "the refresh fails", "the token fails", "nothing here")
    assert rare == common > neither == 0
    *_, rare, common = scores("refresh token", "a token", "b token", "the refresh fails", "the token fails")
    assert rare > common


def test_more_occurrences_and_shorter_texts_count_more():
    twice, once, longer = scores("login", "login login fails", "login fails", "login fails " + "for many reasons " * 9)
    assert twice > once > longer


def test_stems_identifiers_and_accents_meet():
    assert all(score > 0 for score in scores("failing", "it fails", "it failed"))
    assert all(score > 0 for score in scores("user name", "getUserName()", "get_user_name()"))
    assert all(score > 0 for score in scores("cafe", "un café"))


def test_the_path_is_searched_too():
    document = term_frequencies("class Store", "graphsvc/tiers/warm.py")
    statistics = term_statistics("warm tier", [document])
    assert bm25(statistics, [document])[0] > 0
    assert term_coverage(statistics, [document]) == [1.0]


def test_chinese_is_compared_by_pairs():
    found, other = scores("连接池耗尽", "数据库连接池在高负载下耗尽", "按钮的颜色从蓝色改为绿色")
    assert found > 0
    assert other == 0


def test_a_stem_is_not_found_inside_another():
    assert scores("cat", "concatenate the cats") > scores("cat", "concatenate") == [0.0]
    assert coverages("cat", "concatenate") == [0.0]


def test_no_documents_and_no_words():
    assert term_statistics("x", []).average_length == 1.0
    assert bm25(term_statistics("x", []), []) == term_coverage(term_statistics("x", []), []) == []
    assert scores("the of", "the of") == coverages("the of", "the of") == [0.0]
    assert bm25(NO_TERMS, [term_frequencies("a text")]) == term_coverage(NO_TERMS, [term_frequencies("a text")]) == [0]


def test_statistics_weigh_each_stem_once_and_by_the_documents_that_hold_it():
    documents = [term_frequencies(text) for text in ("token token refresh", "tokens", "login", "zebra")]
    statistics = term_statistics("refreshing the token: tokens, logins, absent", documents)
    weights = [statistics.weights[stem] for stem in ("token", "refresh", "login", "absent")]
    assert len(statistics.weights) == 4
    assert 0 < weights[0] < weights[1] == weights[2] < weights[3]
    assert statistics.average_length == (3 + 1 + 1 + 1) / 4


def test_a_document_found_later_is_scored_as_the_hits_were():
    hits = [term_frequencies(text) for text in ("the refresh fails", "the token fails", "a token")]
    statistics = term_statistics("refresh token", hits)
    later = term_frequencies("the refresh fails")
    assert bm25(statistics, [later]) == bm25(statistics, hits)[:1]
    assert bm25(statistics, [later, hits[2]]) == [bm25(statistics, [d])[0] for d in (later, hits[2])]


def test_coverage_is_the_share_of_what_was_asked_by_rarity():
    every, rare, common, none = coverages(
        "refresh token", "token refresh", "refresh " * 9, "token in a long text about many things", "zebra"
    )
    assert every == 1.0
    assert rare + common == pytest.approx(1.0)
    assert none == 0.0
    *_, rare, common = coverages("refresh token", "token", "token", "refresh", "token")
    assert rare > 0.5 > common > 0


def test_a_name_is_as_rare_as_its_words_among_the_hits():
    documents = [term_frequencies(text) for text in ("band album", "band tour", "band", "boyzone band")]
    statistics = term_statistics("Which band is Boyzone?", documents)
    assert rarity(statistics, "Boyzone") == rarity(statistics, "the band Boyzone") == 1.0
    assert 0 < rarity(statistics, "Bands") < 0.5
    assert rarity(statistics, "Which") == rarity(statistics, "Zebra") == 0.0
    assert rarity(NO_TERMS, "Zebra") == 1.0


def test_a_word_with_a_colon_is_not_taken_for_a_count() -> None:
    documents = [term_frequencies("The train leaves at 7:20 from host:8080"), term_frequencies("Seven is 7")]
    statistics = term_statistics("7 host", documents)
    assert bm25(statistics, documents)[1] > 0
    assert all(0 <= share <= 1 for share in term_coverage(statistics, documents))

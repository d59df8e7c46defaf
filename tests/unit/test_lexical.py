from graphsvc.ranking.lexical import bm25, term_frequencies


def scores(query: str, *texts: str) -> list[float]:
    return bm25(query, [term_frequencies(text) for text in texts])


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
    assert bm25("warm tier", [term_frequencies("class Store", "graphsvc/tiers/warm.py")])[0] > 0


def test_chinese_is_compared_by_pairs():
    found, other = scores("连接池耗尽", "数据库连接池在高负载下耗尽", "按钮的颜色从蓝色改为绿色")
    assert found > 0
    assert other == 0


def test_a_stem_is_not_found_inside_another():
    assert scores("cat", "concatenate the cats") > scores("cat", "concatenate") == [0.0]


def test_no_documents_and_no_words():
    assert bm25("x", []) == []
    assert scores("the of", "the of") == [0.0]

// Words of units, Chinese, Japanese and Korean as pairs of characters; consistent with the commit.
// Mode: SCHEMA
// Params: none
// Returns: none
// Order: none
// Index: none
// Serves: schema.apply
// Source: known_failures.md, Odd input (a cjk index beside the English one)
//
// The properties stand in another order than in unit_text_english: two full-text indexes with the same list count as one,
// and IF NOT EXISTS would silently make only the first.

CYPHER 25
CREATE FULLTEXT INDEX unit_text_cjk IF NOT EXISTS
FOR (n:ContextUnit) ON EACH [n.search_terms, n.excerpt, n.scope_terms]
OPTIONS {indexConfig: {`fulltext.analyzer`: 'cjk', `fulltext.eventually_consistent`: false}};

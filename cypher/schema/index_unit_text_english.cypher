// Words of units, stemmed; consistent with the commit, so that a write is found by the next read.
// Mode: SCHEMA
// Params: none
// Returns: none
// Order: none
// Index: none
// Serves: schema.apply
// Source: known_failures.md, Odd input (a cjk index beside the English one)

CYPHER 25
CREATE FULLTEXT INDEX unit_text_english IF NOT EXISTS
FOR (n:ContextUnit) ON EACH [n.excerpt, n.search_terms, n.scope_terms]
OPTIONS {indexConfig: {`fulltext.analyzer`: 'english', `fulltext.eventually_consistent`: false}};

// How many units the caller may see, and how many of them hold each phrase; every count ends at a limit.
// Mode: READ
// Params:
//   tenant_id (string, 1 to 64 bytes): the caller's tenant.
//   caller (map): the caller's agent_id (1 to 256 bytes) and session_id (0 to 256 bytes; empty: nothing of its own is
//     seen). A map, because lengths of top-level strings and lists are part of a plan's key: one plan serves all.
//   now (datetime): policies that expire at or before it do not hold.
//   search (map): a map for the same reason, of
//     own_clause (string): Lucene clause of the caller's own units; empty: there are none.
//     tenant_clause (string): Lucene clause that every current unit of the tenant matches and no other.
//     phrases (list of maps): {index (name of a full-text index), clause (string: Lucene clause of a phrase, with a plus
//       sign before it; empty: all units)}.
//     limit (integer, 1 to 1000): units counted at most.
//     scope_limit (integer, 1 to 100): scopes searched at most; a Lucene query takes 1,024 clauses.
// Returns:
//   counts (list of integers): units that hold each phrase, in the order of the phrases.
// Order: one row; counts in the order of $search.phrases.
// Index: unit_text_english, unit_text_cjk, policy_tenant.
// Serves: FeedbackStore.count_phrases
// Source: gate B8 (distinctive phrases); known_failures.md, Isolation.
//
// As in search_topic, scopes are inside the index and the predicate is asked of the nodes again. Superseded versions of
// a unit are left out: they hold the same phrases, and say nothing about how common those are.
:param tenant_id => 'demo';
:param caller => {agent_id: 'ingest', session_id: 'main'};
:param now => datetime('2026-01-01T00:00:00Z');
:param search => {own_clause: 'scope_terms:sexample0', tenant_clause: '+scope_terms:texample0^0 +scope_terms:current0^0', phrases: [{index: 'unit_text_english', clause: ''}, {index: 'unit_text_english', clause: '+(excerpt:"refresh token" search_terms:"refresh token")'}, {index: 'unit_text_cjk', clause: '+excerpt:"用户登录"'}], limit: 200, scope_limit: 100};

CYPHER 25
// grants: begin
OPTIONAL MATCH (policy:Policy {tenant_id: $tenant_id})
WHERE policy.grantee_agent_id IN ['', $caller.agent_id]
  AND policy.grantee_session_id IN ['', $caller.session_id]
  AND (policy.expires_time IS NULL OR policy.expires_time > $now)
WITH collect(DISTINCT policy {.owner_agent_id, .owner_session_id, .kinds, .scope_clause}) AS grants
// grants: end
WITH grants, [clause IN [$search.own_clause] + [grant IN grants | grant.scope_clause] WHERE clause <> ''] AS clauses
WITH grants, reduce(scopes = '', clause IN clauses[..$search.scope_limit] | scopes + ' ' + clause) AS scopes
UNWIND range(0, size($search.phrases) - 1) AS place
CALL (grants, scopes, place) {
  UNWIND CASE WHEN scopes = '' THEN [] ELSE [$search.phrases[place]] END AS phrase
  CALL db.index.fulltext.queryNodes(
    phrase.index, $search.tenant_clause + ' +(' + scopes + ')^0 ' + phrase.clause, {limit: $search.limit}
  ) YIELD node AS unit
  WITH grants, unit
  WHERE
    // visible: begin
    unit.tenant_id = $tenant_id
    AND (
      (unit.session_id = $caller.session_id AND unit.agent_id = $caller.agent_id AND $caller.session_id <> '')
      OR any(grant IN grants WHERE
        grant.owner_agent_id IN ['', unit.agent_id]
        AND grant.owner_session_id IN ['', unit.session_id]
        AND unit.kind IN grant.kinds)
    )
    // visible: end
  RETURN count(unit) AS holders
}
WITH place, holders
ORDER BY place
RETURN collect(holders) AS counts;

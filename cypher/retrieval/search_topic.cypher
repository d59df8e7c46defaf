// Units about a topic: the best of both full-text indexes and of the vector index that the caller may see.
// Mode: READ
// Params:
//   tenant_id (string, 1 to 64 bytes): the caller's tenant.
//   caller (map): the caller's agent_id (1 to 256 bytes) and session_id (0 to 256 bytes; empty: nothing of its own is
//     seen). A map, because lengths of top-level strings and lists are part of a plan's key: one plan serves all.
//   now (datetime): policies and rejections that expire at or before it do not hold.
//   search (map): a map for the same reason, of
//     kinds (list of string): kinds to be found; all seven for any.
//     fingerprint (string): the query's; what it rejects is left out.
//     as_of (datetime or null): only units with a timestamp up to it exist; null: all.
//     current (list of boolean): [true]; [true, false] with as_of.
//     own_clause (string): Lucene clause of the caller's own units; empty: there are none.
//     tenant_clause (string): Lucene clause that every unit of the tenant matches and no other.
//     filter_clause (string): the same with kinds and currency.
//     text_clause (string or null): Lucene clause of the words; null: no full-text search.
//     embedding (list of float or null): unit-length vector; null: no vector search.
//     index_limit (integer, 1 to 10000): rows an index gives at most.
//     scope_limit (integer, 1 to 100): scopes searched at most; a Lucene query takes 1,024 clauses.
//     group_limit (integer, 1 to 100): vector searches at most.
//     sample_size (integer, 0 to 1000): vectors wanted.
// Returns:
//   hits (list of list): [term frequencies, null when not found by words; cosine in [-1, 1] or null; successor's unit_id or '', entry] each.
//   sample (list of list of float): vectors of the best visible hits by vector.
//   blocked_count (integer): units found that the query rejects.
//   visible_scopes (integer): 0: there is no unit the caller may see; else 1 or more.
//   partial (boolean): more scopes than limits, or rows of the indexes that did not exist as of that time.
// Order: none
// Index: unit_text_english, unit_text_cjk, unit_embedding, unit_embedding_id, policy_tenant, query_fingerprint.
// Serves: ContextGraph.search
// Source: known_failures.md, Isolation (filters after a global top-k); gates B2, C4, N10
//
// Permissions are inside the indexes, so that no other tenant, other agent or old version takes a row of
// the limit; then the predicate is asked of the nodes again, since it alone decides. Lucene: a unit carries the words
// of its scopes, and a policy brings its clause; ^0 keeps them out of the score. Vectors: a filter takes conjunctions
// only, so scopes are grouped and each group is searched. replan=skip: planning takes longer than an answer may.
:param tenant_id => 'demo';
:param caller => {agent_id: 'ingest', session_id: 'main'};
:param now => datetime('2026-01-01T00:00:00Z');
:param search => {kinds: ['decision', 'observation'], fingerprint: '', as_of: null, current: [true], own_clause: 'scope_terms:sexample0', tenant_clause: '+scope_terms:texample0', filter_clause: '+scope_terms:texample0^0 +scope_terms:current0^0', text_clause: 'excerpt:("token" "refresh") search_terms:("token" "refresh")', embedding: [n IN range(1, 256) | 0.0625], index_limit: 100, scope_limit: 100, group_limit: 12, sample_size: 50};

CYPHER 25 replan=skip
// grants: begin
OPTIONAL MATCH (policy:Policy {tenant_id: $tenant_id})
WHERE policy.grantee_agent_id IN ['', $caller.agent_id]
  AND policy.grantee_session_id IN ['', $caller.session_id]
  AND (policy.expires_time IS NULL OR policy.expires_time > $now)
WITH collect(DISTINCT policy {.owner_agent_id, .owner_session_id, .kinds, .scope_clause}) AS grants
// grants: end
WITH grants, [clause IN [$search.own_clause] + [grant IN grants | grant.scope_clause] WHERE clause <> ''] AS clauses
WITH grants, clauses[..$search.scope_limit] AS clauses, size(clauses) > $search.scope_limit AS scopes_cut
CALL (grants) {
  MATCH (:Query {tenant_id: $tenant_id, fingerprint: $search.fingerprint})-[rejects:REJECTS]->(unit:ContextUnit)
  WHERE rejects.lifted_time IS NULL AND (rejects.expires_time IS NULL OR rejects.expires_time > $now)
  RETURN collect(DISTINCT unit) AS blocked
}
CALL (grants) {
  // Scopes that one vector search can cover: those of the same kinds, of one agent's sessions, of several agents, ...
  UNWIND CASE WHEN $search.embedding IS NULL THEN [] ELSE
    grants + CASE WHEN $search.own_clause = '' THEN [] ELSE [{
      owner_agent_id: $caller.agent_id, owner_session_id: $caller.session_id, kinds: $search.kinds
    }] END
  END AS scope
  WITH scope.owner_agent_id AS agent_id, scope.owner_session_id AS session_id,
    coll.sort([kind IN scope.kinds WHERE kind IN $search.kinds]) AS kinds
  WHERE kinds <> []
  WITH CASE WHEN session_id = '' THEN '' ELSE agent_id END AS owner, agent_id <> '' AS by_agent,
    session_id <> '' AS by_session, kinds, collect(DISTINCT agent_id) AS agent_ids,
    coll.sort(collect(DISTINCT session_id)) AS session_ids
  // Agents that share the same sessions and kinds: any of the agents with any of the sessions is still exact.
  WITH by_agent, by_session, kinds, session_ids, coll.sort(coll.flatten(collect(agent_ids))) AS agent_ids
  ORDER BY by_session DESC, by_agent DESC, $caller.agent_id IN agent_ids DESC, agent_ids, session_ids, kinds
  RETURN collect({
    by_agent: by_agent, by_session: by_session, kinds: kinds, agent_ids: agent_ids, session_ids: session_ids
  }) AS groups
}
WITH grants, clauses, blocked, groups[..$search.group_limit] AS groups,
  scopes_cut OR size(groups) > $search.group_limit AS scopes_cut
CALL (clauses, groups) {
  CALL (clauses, groups) {
    // Words in ASCII: the English index finds every unit that the other one would.
    UNWIND CASE
      WHEN $search.text_clause IS NULL OR clauses = [] THEN []
      WHEN $search.text_clause =~ '\\p{ASCII}*' THEN ['unit_text_english']
      ELSE ['unit_text_english', 'unit_text_cjk']
    END AS index
    CALL db.index.fulltext.queryNodes(
      index,
      $search.filter_clause + ' +(' + reduce(scopes = '', clause IN clauses | scopes + ' ' + clause) + ')^0'
        + ' +(' + $search.text_clause + ')',
      {limit: $search.index_limit}
    ) YIELD node AS unit, score
    RETURN unit, score AS full_text_score, null AS vector_score
    UNION ALL
    UNWIND [row IN groups WHERE row.by_session AND row.by_agent] AS group
    MATCH (embedding:UnitEmbedding)
      SEARCH embedding IN (
        VECTOR INDEX unit_embedding
        FOR $search.embedding
        WHERE embedding.tenant_id = $tenant_id
          AND embedding.agent_id IN group.agent_ids AND embedding.session_id IN group.session_ids
          AND embedding.kind IN group.kinds AND embedding.current IN $search.current
        LIMIT $search.index_limit
      ) SCORE AS score
    MATCH (unit:ContextUnit)-[:HAS_EMBEDDING]->(embedding)
    RETURN unit, null AS full_text_score, 2 * score - 1 AS vector_score
    UNION ALL
    UNWIND [row IN groups WHERE row.by_agent AND NOT row.by_session] AS group
    MATCH (embedding:UnitEmbedding)
      SEARCH embedding IN (
        VECTOR INDEX unit_embedding
        FOR $search.embedding
        WHERE embedding.tenant_id = $tenant_id AND embedding.agent_id IN group.agent_ids
          AND embedding.kind IN group.kinds AND embedding.current IN $search.current
        LIMIT $search.index_limit
      ) SCORE AS score
    MATCH (unit:ContextUnit)-[:HAS_EMBEDDING]->(embedding)
    RETURN unit, null AS full_text_score, 2 * score - 1 AS vector_score
    UNION ALL
    UNWIND [row IN groups WHERE row.by_session AND NOT row.by_agent] AS group
    MATCH (embedding:UnitEmbedding)
      SEARCH embedding IN (
        VECTOR INDEX unit_embedding
        FOR $search.embedding
        WHERE embedding.tenant_id = $tenant_id AND embedding.session_id IN group.session_ids
          AND embedding.kind IN group.kinds AND embedding.current IN $search.current
        LIMIT $search.index_limit
      ) SCORE AS score
    MATCH (unit:ContextUnit)-[:HAS_EMBEDDING]->(embedding)
    RETURN unit, null AS full_text_score, 2 * score - 1 AS vector_score
    UNION ALL
    UNWIND [row IN groups WHERE NOT row.by_agent AND NOT row.by_session] AS group
    MATCH (embedding:UnitEmbedding)
      SEARCH embedding IN (
        VECTOR INDEX unit_embedding
        FOR $search.embedding
        WHERE embedding.tenant_id = $tenant_id
          AND embedding.kind IN group.kinds AND embedding.current IN $search.current
        LIMIT $search.index_limit
      ) SCORE AS score
    MATCH (unit:ContextUnit)-[:HAS_EMBEDDING]->(embedding)
    RETURN unit, null AS full_text_score, 2 * score - 1 AS vector_score
  }
  WITH unit, max(full_text_score) AS full_text_score, max(vector_score) AS vector_score
  RETURN collect([unit, full_text_score, vector_score]) AS rows
}
CALL (grants, blocked, rows) {
  UNWIND rows AS row
  WITH row[0] AS unit, row
  WHERE NOT unit IN blocked AND
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
    AND ($search.as_of IS NULL OR unit.timestamp <= $search.as_of)
  WITH unit AS reached, row
  WITH reached, row,
    COLLECT {
      MATCH (reached)<-[:SUPERSESSION]-(unit:ContextUnit)
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
        AND ($search.as_of IS NULL OR unit.timestamp <= $search.as_of)
      RETURN unit.unit_id ORDER BY unit.unit_id LIMIT 1
    } AS successors
  WITH reached AS unit, row, coalesce(head(successors), '') AS superseded_by
  RETURN coll.sort([row IN collect([-row[2], unit.unit_id, unit]) WHERE row[0] IS NOT NULL]) AS by_vector,
    collect([CASE WHEN row[1] IS NULL THEN null ELSE unit.term_frequencies END, row[2], superseded_by,
    // entry: begin
    [
      unit.unit_id, unit.unit_key, unit.agent_id, unit.session_id, unit.task_step, unit.kind, unit.epistemic_status,
      unit.timestamp.epochSeconds * 1000000 + unit.timestamp.microsecond,
      unit.created_time.epochSeconds * 1000000 + unit.created_time.microsecond,
      unit.path, unit.model, unit.tier, unit.relevance_score, unit.pinned, unit.content_sha256, unit.size_bytes,
      unit.token_count_cl100k_base, unit.token_count_o200k_base
    ]
    // entry: end
  ]) AS hits
}
CALL (by_vector) {
  UNWIND by_vector[..$search.sample_size] AS row
  WITH row[2] AS unit
  MATCH (unit)-[:HAS_EMBEDDING]->(embedding:UnitEmbedding)
  RETURN collect(embedding.embedding) AS sample
}
WITH clauses, rows, scopes_cut, hits, sample, size([row IN rows WHERE row[0] IN blocked]) AS blocked_count
CALL (clauses, hits) {
  // Only an empty answer needs to know whether there was anything to find.
  UNWIND CASE WHEN hits = [] THEN clauses ELSE [] END AS clause
  CALL db.index.fulltext.queryNodes('unit_text_english', $search.tenant_clause + ' +(' + clause + ')', {limit: 1})
    YIELD node
  RETURN count(*) AS visible_scopes
}
RETURN hits, sample, blocked_count, CASE WHEN hits = [] THEN visible_scopes ELSE 1 END AS visible_scopes,
  scopes_cut OR ($search.as_of IS NOT NULL AND size(rows) > size(hits) + blocked_count) AS partial;

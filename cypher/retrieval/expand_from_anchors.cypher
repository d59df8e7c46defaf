// The nearest visible units from tasks and units, with fewest hops, the best of the shortest paths, and its match.
// Mode: READ
// Params:
//   tenant_id (string, 1 to 64 bytes): the caller's tenant.
//   caller (map): the caller's agent_id (1 to 256 bytes) and session_id (0 to 256 bytes; empty: nothing of its own is
//     seen). A map, because lengths of top-level strings and lists are part of a plan's key: one plan serves all.
//   now (datetime): policies and rejections that expire at or before it do not hold.
//   traversal (map): a map for the same reason, of
//     task_ids (list of string, 0 to 32): anchors; their units are at one hop, whatever the directions are.
//     unit_ids (list of string, 0 to 32): anchors; at no hop themselves.
//     outgoing_types (list of string): relationship types followed from source to target.
//     incoming_types (list of string): relationship types followed from target to source.
//     wanted_types (list of string): relationship types that count as a match.
//     max_hops (integer, 1 to 4): hops at most.
//     limit (integer, 1 to 2000): nearest units; when they are found and every candidate is, the search stops.
//     candidate_ids (list of string, 0 to 4000): units returned when reached, however far.
//     fingerprint (string): the query's; what it rejects is left out.
//     as_of (datetime or null): only units with a timestamp up to it exist; null: all.
//     hub_degree_cap (integer, 1 to 100000): visible typed edges from which a unit is reached but not passed through.
//     scan_limit (integer, 100 to 1000000 edges): visible edges read a hop.
// Returns:
//   hits (list of list): [edge types, unit ids, successor's unit_id or '', entry] each.
//   anchor_ids (list of string): anchors that are visible, sorted; a task is 'task:' and its id, and visible when
//     one of its units is.
//   partial (boolean): a scan limit cut a hop.
//   blocked_count (integer): reached units that the query rejects.
// Order: current units, superseded ones (at most $traversal.limit of either), candidates beyond; by hops, matches, unit_id.
// Index: context_unit_id, task_id, policy_tenant, query_fingerprint.
// Serves: ContextGraph.expand
// Source: cypher_perf.md, R2 (layers); gates B2, C4, N10
//
// One hop is one subquery: expand the level before, drop what was seen, keep for each unit the least
// [-matches, edge types, unit ids]: the most matches, then the smallest types, then the smallest ids. All paths of a
// level are equally long and a shorter prefix never changes that order, so the least path goes through the least path
// to its last unit but one, and min() over lists finds it. A level is sorted as a list: Sort would charge each row with
// every list in scope (pitfall 7). The number of hops is a literal ceiling; $traversal.max_hops ends earlier. Anchors
// are never hubs. The test for a hub reads the degree first, and counts visible edges only where that is high.
// replan=skip: planning takes longer than an answer may, and no growth of the graph would change this plan.
:param tenant_id => 'demo';
:param caller => {agent_id: 'ingest', session_id: 'main'};
:param now => datetime('2026-01-01T00:00:00Z');
:param traversal => {task_ids: ['T-1'], unit_ids: [], outgoing_types: ['DEPENDENCY', 'CAUSATION'], incoming_types: ['DEPENDENCY', 'PROVENANCE', 'SUPERSESSION'], wanted_types: ['DEPENDENCY'], max_hops: 3, limit: 200, candidate_ids: [], fingerprint: '', as_of: null, hub_degree_cap: 500, scan_limit: 5000};

CYPHER 25 replan=skip
// grants: begin
OPTIONAL MATCH (policy:Policy {tenant_id: $tenant_id})
WHERE policy.grantee_agent_id IN ['', $caller.agent_id]
  AND policy.grantee_session_id IN ['', $caller.session_id]
  AND (policy.expires_time IS NULL OR policy.expires_time > $now)
WITH collect(DISTINCT policy {.owner_agent_id, .owner_session_id, .kinds, .scope_clause}) AS grants
// grants: end
CALL (grants) {
  // What the query rejects; never returned, but passed through.
  MATCH (:Query {tenant_id: $tenant_id, fingerprint: $traversal.fingerprint})-[rejects:REJECTS]->(unit:ContextUnit)
  WHERE rejects.lifted_time IS NULL AND (rejects.expires_time IS NULL OR rejects.expires_time > $now)
  RETURN collect(DISTINCT unit) AS blocked
}
CALL (grants) {
  MATCH (unit:ContextUnit)
  WHERE unit.unit_id IN $traversal.candidate_ids AND
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
    AND ($traversal.as_of IS NULL OR unit.timestamp <= $traversal.as_of)
  RETURN collect(unit) AS candidates
}
CALL (grants) {
  MATCH (task:Task)
  WHERE task.tenant_id = $tenant_id AND task.task_id IN $traversal.task_ids
    // A task without a unit that the caller may see is told from none by nothing.
    AND EXISTS {
      MATCH (task)-[:DEPENDENCY]->(unit:ContextUnit)
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
        AND ($traversal.as_of IS NULL OR unit.timestamp <= $traversal.as_of)
    }
  RETURN collect(task) AS tasks
}
CALL (grants) {
  MATCH (unit:ContextUnit)
  WHERE unit.unit_id IN $traversal.unit_ids AND
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
    AND ($traversal.as_of IS NULL OR unit.timestamp <= $traversal.as_of)
  WITH unit AS reached
  WITH reached,
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
        AND ($traversal.as_of IS NULL OR unit.timestamp <= $traversal.as_of)
      RETURN unit.unit_id ORDER BY unit.unit_id LIMIT 1
    } AS successors
  WITH collect([0, reached.unit_id, [], [reached.unit_id], reached, coalesce(head(successors), '')]) AS rows
  RETURN coll.sort(rows) AS level0
}
WITH grants, blocked, candidates, tasks, level0, [row IN level0 | row[4]] AS seen,
  size([row IN level0 WHERE row[5] = '' AND NOT row[4] IN blocked]) AS found
// A level is a sorted list of [-matches, unit_id, edge types, unit ids, unit, successor]: units at that many hops.
CALL (grants, seen, level0, tasks) {
  CALL (grants, seen, level0, tasks) {
    UNWIND level0 AS row
    WITH row[4] AS x, [row[0], row[2], row[3]] AS path
    MATCH (x)-[edge:DEPENDENCY|PROVENANCE|SUPERSESSION|CAUSATION]-(unit:ContextUnit)
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
      AND ($traversal.as_of IS NULL OR unit.timestamp <= $traversal.as_of)
      AND type(edge) IN CASE WHEN startNode(edge) = x THEN $traversal.outgoing_types ELSE $traversal.incoming_types END
      AND NOT unit IN seen
    RETURN unit, [
      path[0] - CASE WHEN type(edge) IN $traversal.wanted_types THEN 1 ELSE 0 END,
      path[1] + type(edge), path[2] + unit.unit_id
    ] AS path
    UNION ALL
    UNWIND tasks AS task
    MATCH (task)-[:DEPENDENCY]->(unit:ContextUnit)
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
      AND ($traversal.as_of IS NULL OR unit.timestamp <= $traversal.as_of)
      AND NOT unit IN seen
    RETURN unit, [
      CASE WHEN 'DEPENDENCY' IN $traversal.wanted_types THEN -1 ELSE 0 END,
      ['DEPENDENCY'], ['task:' + task.task_id, unit.unit_id]
    ] AS path
  }
  WITH unit, path
  LIMIT $traversal.scan_limit + 1
  WITH unit AS reached, min(path) AS path, count(*) AS edges
  WITH reached, path, edges,
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
        AND ($traversal.as_of IS NULL OR unit.timestamp <= $traversal.as_of)
      RETURN unit.unit_id ORDER BY unit.unit_id LIMIT 1
    } AS successors
  WITH collect([path[0], reached.unit_id, path[1], path[2], reached, coalesce(head(successors), '')]) AS rows,
    sum(edges) AS edges
  RETURN coll.sort(rows) AS level1, edges > $traversal.scan_limit AS partial
}
WITH grants, blocked, candidates, tasks, level0, level1, partial,
  seen + [row IN level1 | row[4]] AS seen,
  found + size([row IN level1 WHERE row[5] = '' AND NOT row[4] IN blocked]) AS found
CALL (grants, seen, level1, found, candidates) {
  UNWIND CASE
    WHEN $traversal.max_hops >= 2
      AND (found < $traversal.limit OR any(candidate IN candidates WHERE NOT candidate IN seen)) THEN level1
    ELSE []
  END AS row
  WITH row[4] AS x, [row[0], row[2], row[3]] AS path
  WHERE
    COUNT { (x)-[:DEPENDENCY|PROVENANCE|SUPERSESSION|CAUSATION]-() } < $traversal.hub_degree_cap
    OR NOT EXISTS {
      MATCH (x)-[:DEPENDENCY|PROVENANCE|SUPERSESSION|CAUSATION]-(unit:ContextUnit)
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
        AND ($traversal.as_of IS NULL OR unit.timestamp <= $traversal.as_of)
      RETURN unit SKIP $traversal.hub_degree_cap - 1 LIMIT 1
    }
  MATCH (x)-[edge:DEPENDENCY|PROVENANCE|SUPERSESSION|CAUSATION]-(unit:ContextUnit)
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
    AND ($traversal.as_of IS NULL OR unit.timestamp <= $traversal.as_of)
    AND type(edge) IN CASE WHEN startNode(edge) = x THEN $traversal.outgoing_types ELSE $traversal.incoming_types END
    AND NOT unit IN seen
  WITH unit, [
      path[0] - CASE WHEN type(edge) IN $traversal.wanted_types THEN 1 ELSE 0 END,
      path[1] + type(edge), path[2] + unit.unit_id
    ] AS path
  LIMIT $traversal.scan_limit + 1
  WITH unit AS reached, min(path) AS path, count(*) AS edges
  WITH reached, path, edges,
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
        AND ($traversal.as_of IS NULL OR unit.timestamp <= $traversal.as_of)
      RETURN unit.unit_id ORDER BY unit.unit_id LIMIT 1
    } AS successors
  WITH collect([path[0], reached.unit_id, path[1], path[2], reached, coalesce(head(successors), '')]) AS rows,
    sum(edges) AS edges
  RETURN coll.sort(rows) AS level2, edges > $traversal.scan_limit AS cut
}
WITH grants, blocked, candidates, tasks, level0, level1, level2, partial OR cut AS partial,
  seen + [row IN level2 | row[4]] AS seen,
  found + size([row IN level2 WHERE row[5] = '' AND NOT row[4] IN blocked]) AS found
CALL (grants, seen, level2, found, candidates) {
  UNWIND CASE
    WHEN $traversal.max_hops >= 3
      AND (found < $traversal.limit OR any(candidate IN candidates WHERE NOT candidate IN seen)) THEN level2
    ELSE []
  END AS row
  WITH row[4] AS x, [row[0], row[2], row[3]] AS path
  WHERE
    COUNT { (x)-[:DEPENDENCY|PROVENANCE|SUPERSESSION|CAUSATION]-() } < $traversal.hub_degree_cap
    OR NOT EXISTS {
      MATCH (x)-[:DEPENDENCY|PROVENANCE|SUPERSESSION|CAUSATION]-(unit:ContextUnit)
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
        AND ($traversal.as_of IS NULL OR unit.timestamp <= $traversal.as_of)
      RETURN unit SKIP $traversal.hub_degree_cap - 1 LIMIT 1
    }
  MATCH (x)-[edge:DEPENDENCY|PROVENANCE|SUPERSESSION|CAUSATION]-(unit:ContextUnit)
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
    AND ($traversal.as_of IS NULL OR unit.timestamp <= $traversal.as_of)
    AND type(edge) IN CASE WHEN startNode(edge) = x THEN $traversal.outgoing_types ELSE $traversal.incoming_types END
    AND NOT unit IN seen
  WITH unit, [
      path[0] - CASE WHEN type(edge) IN $traversal.wanted_types THEN 1 ELSE 0 END,
      path[1] + type(edge), path[2] + unit.unit_id
    ] AS path
  LIMIT $traversal.scan_limit + 1
  WITH unit AS reached, min(path) AS path, count(*) AS edges
  WITH reached, path, edges,
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
        AND ($traversal.as_of IS NULL OR unit.timestamp <= $traversal.as_of)
      RETURN unit.unit_id ORDER BY unit.unit_id LIMIT 1
    } AS successors
  WITH collect([path[0], reached.unit_id, path[1], path[2], reached, coalesce(head(successors), '')]) AS rows,
    sum(edges) AS edges
  RETURN coll.sort(rows) AS level3, edges > $traversal.scan_limit AS cut
}
WITH grants, blocked, candidates, tasks, level0, level1, level2, level3, partial OR cut AS partial,
  seen + [row IN level3 | row[4]] AS seen,
  found + size([row IN level3 WHERE row[5] = '' AND NOT row[4] IN blocked]) AS found
CALL (grants, seen, level3, found, candidates) {
  UNWIND CASE
    WHEN $traversal.max_hops >= 4
      AND (found < $traversal.limit OR any(candidate IN candidates WHERE NOT candidate IN seen)) THEN level3
    ELSE []
  END AS row
  WITH row[4] AS x, [row[0], row[2], row[3]] AS path
  WHERE
    COUNT { (x)-[:DEPENDENCY|PROVENANCE|SUPERSESSION|CAUSATION]-() } < $traversal.hub_degree_cap
    OR NOT EXISTS {
      MATCH (x)-[:DEPENDENCY|PROVENANCE|SUPERSESSION|CAUSATION]-(unit:ContextUnit)
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
        AND ($traversal.as_of IS NULL OR unit.timestamp <= $traversal.as_of)
      RETURN unit SKIP $traversal.hub_degree_cap - 1 LIMIT 1
    }
  MATCH (x)-[edge:DEPENDENCY|PROVENANCE|SUPERSESSION|CAUSATION]-(unit:ContextUnit)
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
    AND ($traversal.as_of IS NULL OR unit.timestamp <= $traversal.as_of)
    AND type(edge) IN CASE WHEN startNode(edge) = x THEN $traversal.outgoing_types ELSE $traversal.incoming_types END
    AND NOT unit IN seen
  WITH unit, [
      path[0] - CASE WHEN type(edge) IN $traversal.wanted_types THEN 1 ELSE 0 END,
      path[1] + type(edge), path[2] + unit.unit_id
    ] AS path
  LIMIT $traversal.scan_limit + 1
  WITH unit AS reached, min(path) AS path, count(*) AS edges
  WITH reached, path, edges,
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
        AND ($traversal.as_of IS NULL OR unit.timestamp <= $traversal.as_of)
      RETURN unit.unit_id ORDER BY unit.unit_id LIMIT 1
    } AS successors
  WITH collect([path[0], reached.unit_id, path[1], path[2], reached, coalesce(head(successors), '')]) AS rows,
    sum(edges) AS edges
  RETURN coll.sort(rows) AS level4, edges > $traversal.scan_limit AS cut
}
WITH grants, blocked, candidates, tasks, level0, partial OR cut AS partial,
  level0 + level1 + level2 + level3 + level4 AS reached
WITH grants, candidates, tasks, level0, partial,
  [row IN reached WHERE NOT row[4] IN blocked] AS open, size([row IN reached WHERE row[4] IN blocked]) AS blocked_count
WITH candidates, tasks, level0, partial, blocked_count,
  [row IN open WHERE row[5] = ''] AS current, [row IN open WHERE row[5] <> ''] AS past
WITH tasks, level0, partial, blocked_count,
  current[..$traversal.limit] + past[..$traversal.limit]
    + [row IN current[$traversal.limit..] + past[$traversal.limit..] WHERE row[4] IN candidates] AS chosen
CALL (chosen) {
  UNWIND chosen AS row
  WITH row, row[4] AS unit
  RETURN collect([row[2], row[3], row[5],
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
RETURN hits, coll.sort([task IN tasks | 'task:' + task.task_id] + [row IN level0 | row[1]]) AS anchor_ids, partial,
  blocked_count;

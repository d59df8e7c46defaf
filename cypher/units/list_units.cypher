// Returns a page of visible units with their relations, by created_time, then unit_id.
// Mode: READ
// Params:
//   tenant_id (string, 1 to 64 bytes): the caller's tenant.
//   caller (map): the caller's agent_id (1 to 256 bytes) and session_id (0 to 256 bytes; empty: nothing of its own is seen).
//   now (datetime): policies that expire at or before it do not hold.
//   where (map): what is listed; in one map, so that neither list sizes nor string lengths make Neo4j plan again:
//     kinds (list of strings: kinds wanted; empty: all);
//     owner_agent_id (string: units of this agent only; empty: any);
//     owner_session_id (string: units of this session only; empty: any);
//     task_id (string: units of this task only; empty: any);
//     path_prefix (string: units whose path begins so; empty: any);
//     own_only (boolean: units of the caller's own agent and session only);
//     current_only (boolean: units without a visible successor only);
//     after_id (string: unit_id of the last unit of the page before; empty for the first page).
//   after_time (datetime): created_time of the last unit of the page before; the beginning of time for the first page.
//   limit (integer, 1 to 1000): units returned at most.
// Returns:
//   units (list of lists): as get_units returns them.
// Order: one row; its list has no order.
// Index: context_unit_owner, context_unit_agent, context_unit_created (range scans from after_time, in order).
// Serves: UnitStore.list_units.
// Source: cypher_perf.md, section 4 (ranges last); known_failures.md, Isolation.
//
// What the caller may see is a handful of scopes: its own session and what each policy names. Each is read in the order
// of an index that begins with it and stops at the limit, so a small scope beside a large one costs no scan of the large.
// Successors are looked for in a CALL: in an EXISTS, Neo4j 2026.09 takes its `unit` for the one renamed to `found`.
:param tenant_id => 'demo';
:param caller => {agent_id: 'ingest', session_id: 'main'};
:param now => datetime('2026-01-01T00:00:00Z');
:param where => {kinds: [], owner_agent_id: '', owner_session_id: '', task_id: '', path_prefix: '', own_only: false, current_only: false, after_id: ''};
:param after_time => datetime('1970-01-01T00:00:00Z');
:param limit => 25;

CYPHER 25
// grants: begin
OPTIONAL MATCH (policy:Policy {tenant_id: $tenant_id})
WHERE policy.grantee_agent_id IN ['', $caller.agent_id]
  AND policy.grantee_session_id IN ['', $caller.session_id]
  AND (policy.expires_time IS NULL OR policy.expires_time > $now)
WITH collect(DISTINCT policy {.owner_agent_id, .owner_session_id, .kinds, .scope_clause}) AS grants
// grants: end
WITH grants,
  [{agent_id: $caller.agent_id, session_id: $caller.session_id}]
  + [grant IN grants WHERE NOT $where.own_only | {
      agent_id: CASE grant.owner_agent_id WHEN '' THEN $where.owner_agent_id ELSE grant.owner_agent_id END,
      session_id: CASE grant.owner_session_id WHEN '' THEN $where.owner_session_id ELSE grant.owner_session_id END}]
  AS every_scope
WITH grants, [scope IN every_scope WHERE $where.owner_agent_id IN ['', scope.agent_id]
  AND $where.owner_session_id IN ['', scope.session_id]] AS scopes
CALL (grants, scopes) {
  UNWIND [scope IN scopes WHERE scope.agent_id <> '' AND scope.session_id <> ''] AS scope
  CALL (grants, scope) {
    MATCH (unit:ContextUnit {tenant_id: $tenant_id, agent_id: scope.agent_id, session_id: scope.session_id})
    WHERE unit.created_time >= $after_time
      AND CASE WHEN unit.created_time > $after_time THEN true ELSE unit.unit_id > $where.after_id END
      AND (size($where.kinds) = 0 OR unit.kind IN $where.kinds)
      AND ($where.task_id = '' OR unit.task_id = $where.task_id)
      AND ($where.path_prefix = '' OR unit.path STARTS WITH $where.path_prefix)
      AND (NOT $where.current_only OR unit.current)
      AND
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
    WITH unit AS found, grants
    CALL (found, grants) {
      UNWIND CASE WHEN $where.current_only THEN [found] ELSE [] END AS superseded
      MATCH (superseded)<-[:SUPERSESSION]-(unit:ContextUnit)
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
      RETURN count(*) AS successor_count
    }
    WITH found WHERE successor_count = 0
    RETURN found
    ORDER BY found.tenant_id, found.agent_id, found.session_id, found.created_time, found.unit_id
    LIMIT $limit
  }
  RETURN found
  UNION
  UNWIND [scope IN scopes WHERE scope.agent_id <> '' AND scope.session_id = ''] AS scope
  CALL (grants, scope) {
    MATCH (unit:ContextUnit {tenant_id: $tenant_id, agent_id: scope.agent_id})
    WHERE unit.created_time >= $after_time
      AND CASE WHEN unit.created_time > $after_time THEN true ELSE unit.unit_id > $where.after_id END
      AND (size($where.kinds) = 0 OR unit.kind IN $where.kinds)
      AND ($where.task_id = '' OR unit.task_id = $where.task_id)
      AND ($where.path_prefix = '' OR unit.path STARTS WITH $where.path_prefix)
      AND (NOT $where.current_only OR unit.current)
      AND
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
    WITH unit AS found, grants
    CALL (found, grants) {
      UNWIND CASE WHEN $where.current_only THEN [found] ELSE [] END AS superseded
      MATCH (superseded)<-[:SUPERSESSION]-(unit:ContextUnit)
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
      RETURN count(*) AS successor_count
    }
    WITH found WHERE successor_count = 0
    RETURN found
    ORDER BY found.tenant_id, found.agent_id, found.created_time, found.unit_id
    LIMIT $limit
  }
  RETURN found
  UNION
  UNWIND [scope IN scopes WHERE scope.agent_id = ''] AS scope
  CALL (grants, scope) {
    MATCH (unit:ContextUnit {tenant_id: $tenant_id})
    WHERE unit.created_time >= $after_time
      AND CASE WHEN unit.created_time > $after_time THEN true ELSE unit.unit_id > $where.after_id END
      AND scope.session_id IN ['', unit.session_id]
      AND (size($where.kinds) = 0 OR unit.kind IN $where.kinds)
      AND ($where.task_id = '' OR unit.task_id = $where.task_id)
      AND ($where.path_prefix = '' OR unit.path STARTS WITH $where.path_prefix)
      AND (NOT $where.current_only OR unit.current)
      AND
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
    WITH unit AS found, grants
    CALL (found, grants) {
      UNWIND CASE WHEN $where.current_only THEN [found] ELSE [] END AS superseded
      MATCH (superseded)<-[:SUPERSESSION]-(unit:ContextUnit)
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
      RETURN count(*) AS successor_count
    }
    WITH found WHERE successor_count = 0
    RETURN found
    ORDER BY found.tenant_id, found.created_time, found.unit_id
    LIMIT $limit
  }
  RETURN found
}
WITH DISTINCT found AS source, grants
ORDER BY source.created_time, source.unit_id
LIMIT $limit
CALL (source, grants) {
  MATCH (source)-[relation:DEPENDENCY|PROVENANCE|SUPERSESSION|CAUSATION]->(unit:ContextUnit)
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
  RETURN collect([unit.unit_id, type(relation), relation.role, relation.weight]) AS relations
}
CALL (source, grants) {
  MATCH (source)<-[:SUPERSESSION]-(unit:ContextUnit)
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
  RETURN min(unit.unit_id) AS superseded_by
}
WITH source AS unit, relations, superseded_by
RETURN collect([
  [unit.task_id, unit.provenance, unit.tool_call_id, unit.tool_name, unit.tool_arguments_json, unit.vendor_state],
  relations,
  superseded_by,
  // entry: begin
  [
    unit.unit_id, unit.unit_key, unit.agent_id, unit.session_id, unit.task_step, unit.kind, unit.epistemic_status,
    unit.timestamp.epochSeconds * 1000000 + unit.timestamp.microsecond,
    unit.created_time.epochSeconds * 1000000 + unit.created_time.microsecond,
    unit.path, unit.model, unit.tier, unit.relevance_score, unit.pinned, unit.content_sha256, unit.size_bytes,
    unit.token_count_cl100k_base, unit.token_count_o200k_base
  ]
  // entry: end
]) AS units;

// Stores a policy, once per request_id.
// Mode: WRITE
// Params:
//   tenant_id (string, 1 to 64 bytes): the caller's tenant.
//   caller (map): the caller's agent_id (1 to 256 bytes).
//   write (map): what is written; in one map, so that neither list sizes nor string lengths make Neo4j plan again:
//     request_id (string, 1 to 128 bytes: the caller's name for this write);
//     fingerprint (string, 64 hex digits: sha256 of the request);
//     policy (map: properties of the node (policy_id, owner_agent_id, owner_session_id, grantee_agent_id,
//       grantee_session_id, kinds, created_by, expires_time, scope_clause));
//     result_json (string: the policy, given back on a replay).
//   now (datetime): time of the write, the policy's created_time.
// Returns:
//   stored_fingerprint (string): of the request first carried out under this request_id; another than $write.fingerprint: nothing is written.
//   replayed_json (string): the policy of the first time; null: this is the first time.
//   tenant_count (integer): policies of the tenant, this one included; the caller rolls back over the limit; null on a replay.
//   grantee_count (integer): of these, policies for the same grantee agent and session; the caller rolls back over the limit; null on a replay.
// Order: one row; none when the tenant is unknown.
// Index: tenant_id, request_id (unique seeks), policy_tenant (seek).
// Serves: TenantStore.create_policy.
// Source: gate N10.
//
// The write lock on (:Tenant) makes concurrent creations wait for each other, so that none passes the limits unseen.
:param tenant_id => 'demo';
:param caller => {agent_id: 'ingest', session_id: 'main'};
:param write => {request_id: 'example-policy', fingerprint: '0000000000000000000000000000000000000000000000000000000000000000', policy: {policy_id: 'example', owner_agent_id: 'ingest', owner_session_id: '', grantee_agent_id: 'reader', grantee_session_id: '', kinds: ['decision'], created_by: 'ingest', expires_time: null, scope_clause: ''}, result_json: '{}'};
:param now => datetime('2026-01-01T00:00:00Z');

CYPHER 25
MATCH (tenant:Tenant {tenant_id: $tenant_id})
MERGE (request:Request {tenant_id: $tenant_id, agent_id: $caller.agent_id, request_id: $write.request_id})
  ON CREATE SET request.fingerprint = $write.fingerprint, request.created_time = $now
WITH tenant, request, request.fingerprint AS stored_fingerprint, request.result_json AS replayed_json
OPTIONAL CALL (tenant, request, stored_fingerprint, replayed_json) {
  WITH * WHERE stored_fingerprint = $write.fingerprint AND replayed_json IS NULL
  SET tenant.policy_time = $now, request.result_json = $write.result_json
  CREATE (policy:Policy {tenant_id: $tenant_id, policy_id: $write.policy.policy_id})
  SET policy += $write.policy, policy.created_time = $now
  WITH policy
  MATCH (other:Policy {tenant_id: $tenant_id})
  RETURN count(*) AS tenant_count,
    sum(CASE WHEN other.grantee_agent_id = $write.policy.grantee_agent_id
      AND other.grantee_session_id = $write.policy.grantee_session_id THEN 1 ELSE 0 END) AS grantee_count
}
RETURN stored_fingerprint, replayed_json, tenant_count, grantee_count;

// Ends a policy of the caller's own, once per request_id; an admin's: any of the tenant.
// Mode: WRITE
// Params:
//   tenant_id (string, 1 to 64 bytes): the caller's tenant.
//   caller (map): the caller's agent_id (1 to 256 bytes).
//   write (map): what is removed; in one map, so that neither list sizes nor string lengths make Neo4j plan again:
//     request_id (string, 1 to 128 bytes: the caller's name for this write);
//     fingerprint (string, 64 hex digits: sha256 of the request);
//     every_policy (boolean: true for an admin);
//     policy_id (string: the policy).
//   now (datetime): time of the write.
// Returns:
//   stored_fingerprint (string): of the request first carried out under this request_id; another than $write.fingerprint: nothing is written.
//   replayed_json (string): `true` when the first time ended it; null: this is the first time.
//   deleted_count (integer, 0 or 1): the caller rolls back on 0: there is no such policy, or it is somebody else's; null on a replay.
// Order: one row; none when the tenant is unknown.
// Index: tenant_id, request_id, policy_id (unique seeks).
// Serves: TenantStore.delete_policy.
// Source: gate N10.
:param tenant_id => 'demo';
:param caller => {agent_id: 'ingest', session_id: 'main'};
:param write => {request_id: 'example-delete-policy', fingerprint: '0000000000000000000000000000000000000000000000000000000000000000', every_policy: false, policy_id: 'example'};
:param now => datetime('2026-01-01T00:00:00Z');

CYPHER 25
MATCH (:Tenant {tenant_id: $tenant_id})
MERGE (request:Request {tenant_id: $tenant_id, agent_id: $caller.agent_id, request_id: $write.request_id})
  ON CREATE SET request.fingerprint = $write.fingerprint, request.created_time = $now
WITH request, request.fingerprint AS stored_fingerprint, request.result_json AS replayed_json
OPTIONAL CALL (request, stored_fingerprint, replayed_json) {
  WITH * WHERE stored_fingerprint = $write.fingerprint AND replayed_json IS NULL
  SET request.result_json = 'true'
  WITH request
  OPTIONAL MATCH (policy:Policy {tenant_id: $tenant_id, policy_id: $write.policy_id})
  WHERE $write.every_policy OR policy.owner_agent_id = $caller.agent_id
  WITH policy, count(policy) AS deleted_count
  DETACH DELETE policy
  RETURN deleted_count
}
RETURN stored_fingerprint, replayed_json, deleted_count;

// Returns a page of the policies that the caller owns or that are for it; an admin's: of all of the tenant.
// Mode: READ
// Params:
//   tenant_id (string, 1 to 64 bytes): the caller's tenant.
//   caller (map): the caller's agent_id (1 to 256 bytes) and session_id (0 to 256 bytes; empty: policies for any session of the agent).
//   every_policy (boolean): true for an admin.
//   after_time (datetime): created_time of the last policy of the page before; the beginning of time for the first page.
//   after_id (string): policy_id of the last policy of the page before; empty for the first page.
//   limit (integer, 1 to 1000): policies returned at most.
// Returns:
//   policies (list of maps): properties of the nodes; times are datetimes.
// Order: one row; its list is by created_time, policy_id.
// Index: policy_tenant (seek; a tenant has at most 1000).
// Serves: TenantStore.list_policies.
// Source: gate N10.
:param tenant_id => 'demo';
:param caller => {agent_id: 'ingest', session_id: ''};
:param every_policy => false;
:param after_time => datetime('1970-01-01T00:00:00Z');
:param after_id => '';
:param limit => 25;

CYPHER 25
MATCH (policy:Policy {tenant_id: $tenant_id})
WHERE ($every_policy
    OR policy.owner_agent_id = $caller.agent_id
    OR (policy.grantee_agent_id IN ['', $caller.agent_id]
      AND ($caller.session_id = '' OR policy.grantee_session_id IN ['', $caller.session_id])))
  AND (policy.created_time > $after_time OR (policy.created_time = $after_time AND policy.policy_id > $after_id))
WITH policy
ORDER BY policy.created_time, policy.policy_id
LIMIT $limit
RETURN collect(properties(policy)) AS policies;

# ruff: noqa: N802 - the methods have the names of the RPCs
"""RegistryService: messages in, use cases, messages out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphsvc.server import convert
from graphsvc.server.requests import RequestReader
from graphsvc.v1 import registry_service_pb2, registry_service_pb2_grpc

if TYPE_CHECKING:
    from graphsvc.services.registry import RegistryUseCases

_LISTING = ("policies",)


class RegistryService(registry_service_pb2_grpc.RegistryServiceServicer):
    """Who shares what with whom, inside a tenant."""

    def __init__(self, registry: RegistryUseCases, reader: RequestReader) -> None:
        self._registry = registry
        self._reader = reader

    async def GetPrincipal(
        self, request: registry_service_pb2.GetPrincipalRequest, context: Any
    ) -> registry_service_pb2.GetPrincipalResponse:
        """Who the caller is."""
        caller = self._reader.registrar()
        return registry_service_pb2.GetPrincipalResponse(
            tenant_id=caller.tenant_id,
            agent_id=caller.agent_id,
            roles=[f"ROLE_{role.name}" for role in sorted(caller.roles)],
        )

    async def CreatePolicy(
        self, request: registry_service_pb2.CreatePolicyRequest, context: Any
    ) -> registry_service_pb2.CreatePolicyResponse:
        """The policy made."""
        write = self._reader.write(request, request.request_id)
        policy = request.policy
        written = await self._registry.create_policy(
            self._reader.registrar(),
            owner_agent_id=convert.optional_name(policy.owner_agent_id, "policy.owner_agent_id"),
            owner_session_id=convert.optional_name(policy.owner_session_id, "policy.owner_session_id"),
            grantee_agent_id=convert.optional_name(policy.grantee_agent_id, "policy.grantee_agent_id"),
            grantee_session_id=convert.optional_name(policy.grantee_session_id, "policy.grantee_session_id"),
            kinds=convert.kinds(policy.kinds, "policy.kinds"),
            expires_time=convert.time(policy.expires_time, "policy.expires_time")
            if policy.HasField("expires_time")
            else None,
            request=write,
        )
        return registry_service_pb2.CreatePolicyResponse(
            policy=convert.policy_message(written.result), revision=self._reader.revision(written)
        )

    async def ListPolicies(
        self, request: registry_service_pb2.ListPoliciesRequest, context: Any
    ) -> registry_service_pb2.ListPoliciesResponse:
        """A page of policies."""
        principal = self._reader.registrar()
        size = convert.page_size(request.page_size)
        after = self._reader.tokens.read_page_token(principal, _LISTING, request.page_token)
        options = self._reader.read_options(request.consistency)
        found = (await self._registry.list_policies(principal, after, size + 1, options)).result
        page = found[:size]
        token = ""
        if len(page) < len(found):
            token = self._reader.tokens.page_token(principal, _LISTING, (page[-1].created_time, page[-1].policy_id))
        return registry_service_pb2.ListPoliciesResponse(
            policies=[convert.policy_message(one) for one in page], next_page_token=token
        )

    async def DeletePolicy(
        self, request: registry_service_pb2.DeletePolicyRequest, context: Any
    ) -> registry_service_pb2.DeletePolicyResponse:
        """The revision without the policy."""
        write = self._reader.write(request, request.request_id)
        policy_id = convert.required_name(request.policy_id, "policy_id")
        written = await self._registry.delete_policy(self._reader.registrar(), policy_id, write)
        return registry_service_pb2.DeletePolicyResponse(revision=self._reader.revision(written))

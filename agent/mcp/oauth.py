"""Signing in to a server over OAuth: the link for the person, what they paste, and the tokens in the credential store.

Nothing has to listen for the browser. It ends on an address of this machine where nothing may be, and the person pastes
that address into the chat, where auth mode takes it.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol
from urllib.parse import parse_qs, urlsplit

from pydantic import BaseModel, ConfigDict, SecretStr, ValidationError

from agent.credentials.errors import CredentialError
from agent.credentials.store import Credential
from agent.mcp.names import client_name, tokens_name
from agent.model.ids import OPERATOR, UserId
from agent.store.credentials import AUTH_TTL, Terms
from channels.message import Address

if TYPE_CHECKING:
    from mcp.client.auth import OAuthClientProvider
    from mcp.client.auth.oauth2 import OAuthContext
    from mcp.shared.auth import AuthorizationCodeResult, OAuthClientInformationFull, OAuthToken

    from agent.mcp.http import Wire

PROVIDER = "mcp"
_LONGEST_CODE = 4096


class Vault(Protocol):
    """What is needed of the credential store."""

    async def get(self, user: UserId, name: str) -> Credential: ...

    async def put(self, user: UserId, name: str, secret: SecretStr, terms: Terms) -> None: ...

    async def delete(self, user: UserId, name: str) -> bool: ...


class SignInFailed(Exception):
    """A sign-in came to nothing. The text is for the person."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What the browser was given, as the person pasted it."""

    code: str
    issuer: str | None


def read_answer(pasted: str, state: str) -> Answer:
    """The code in a pasted address, or the code itself. Raises SignInFailed if it belongs to another sign-in.

    A code by itself comes without the state. It is bound to this sign-in all the same: the server gives a token for it
    only against the verifier of the link that was opened (RFC 7636).
    """
    text = pasted.strip()
    if "://" not in text and "=" not in text:
        if not text or len(text) > _LONGEST_CODE or any(char.isspace() for char in text):
            raise SignInFailed("What you sent is neither an address nor a code.")
        return Answer(text, None)
    try:
        query = parse_qs(urlsplit(text).query or text.partition("?")[2] or text, max_num_fields=32)
    except ValueError:
        raise SignInFailed("What you sent is neither an address nor a code.") from None
    if query.get("state", [""])[0] != state:
        raise SignInFailed("The address belongs to another sign-in, so nothing was sent.")
    if "error" in query:
        raise SignInFailed("The service refused the sign-in.")
    code = query.get("code", [""])[0]
    if not code or len(code) > _LONGEST_CODE:
        raise SignInFailed("The address holds no code.")
    return Answer(code, query.get("iss", [None])[0])


class SignIn:
    """One sign-in between its link and its end. `address`: the chat where its end is told."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self._link: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()
        self._pasted: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    @property
    def has_link(self) -> bool:
        """Whether the person was given a link to open."""
        return self._link.done() and self._link.result() is not None

    @property
    def waits_for_paste(self) -> bool:
        return self.has_link and not self._pasted.done()

    async def link(self) -> str | None:
        """The link to open, once it is known; None if there is none to come."""
        return await asyncio.shield(self._link)  # one who waits no longer must not end it for the other

    def offer(self, link: str) -> None:
        if not self._link.done():
            self._link.set_result(link)

    def end(self) -> None:
        """Whoever waits for the link waits no longer."""
        if not self._link.done():
            self._link.set_result(None)

    def paste(self, text: str) -> None:
        if not self._pasted.done():
            self._pasted.set_result(text)

    async def pasted(self) -> str:
        """What the person sent. Raises SignInFailed after the time that auth mode waits."""
        try:
            async with asyncio.timeout(AUTH_TTL.total_seconds()):
                return await self._pasted
        except TimeoutError:
            raise SignInFailed("The sign-in was not finished in time.") from None


class Authorization:
    """How one connection signs its requests. Without a `sign_in` it refreshes tokens, but opens no link."""

    def __init__(
        self, server: str, url: str, redirect: str, wire: Wire, vault: Vault, sign_in: SignIn | None, *, stale: bool
    ) -> None:
        self._server = server
        self._url = url
        self._redirect = redirect
        self._wire = wire
        self._vault = vault
        self._sign_in = sign_in
        self._stale = stale
        self._state = ""
        self.is_needed = False
        """The server wants a person to sign in, and this connection may not ask one."""
        self.failure: str | None = None
        """Why a sign-in came to nothing, for the person."""

    def provider(self) -> OAuthClientProvider:
        """The library's side of it."""
        from mcp.client.auth import OAuthClientProvider
        from mcp.shared.auth import OAuthClientMetadata
        from pydantic import AnyUrl

        metadata = OAuthClientMetadata(
            client_name="optimclaw",
            redirect_uris=[AnyUrl(self._redirect)],
            token_endpoint_auth_method="none",
            grant_types=["authorization_code", "refresh_token"],
        )
        keeper = _Keeper(self._server, self._url, self._redirect, self._vault, stale=self._stale)
        provider = OAuthClientProvider(self._url, metadata, keeper, self._show_link, self._wait_for_code)
        keeper.context = provider.context
        return provider

    def end_sign_in(self) -> None:
        """The person has signed in: what comes later in this connection does not use their answer again."""
        self._sign_in = None
        self.failure = None

    async def _show_link(self, link: str) -> None:
        if self._sign_in is None:
            self.is_needed = True
            raise SignInFailed("a person has to sign in")
        if not await self._wire.may_ask(link):
            raise self._failed("The server names an address for signing in that is not public, so it is not used.")
        self._state = parse_qs(urlsplit(link).query).get("state", [""])[0]
        self._sign_in.offer(link)

    async def _wait_for_code(self) -> AuthorizationCodeResult:
        from mcp.shared.auth import AuthorizationCodeResult

        assert self._sign_in is not None  # `_show_link` came first
        try:
            answer = read_answer(await self._sign_in.pasted(), self._state)
        except SignInFailed as error:
            raise self._failed(str(error)) from None
        self.failure = "The service did not accept the code."  # until it has
        return AuthorizationCodeResult(code=answer.code, state=self._state, iss=answer.issuer)

    def _failed(self, reason: str) -> SignInFailed:
        self.failure = reason
        return SignInFailed(reason)


class _StoredTokens(BaseModel):
    """Tokens with what is needed to renew them after a restart."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    tokens: dict[str, object]
    expires_at: float | None
    metadata: dict[str, object] | None
    resource: dict[str, object] | None
    issuer: str | None


class _Keeper:
    """The library's `TokenStorage` over the credential store. What was given for another host is not used."""

    context: OAuthContext

    def __init__(self, server: str, url: str, redirect: str, vault: Vault, *, stale: bool) -> None:
        self._server = server
        self._host = (urlsplit(url).hostname or "").rstrip(".").lower()
        self._redirect = redirect
        self._vault = vault
        self._stale = stale

    async def get_tokens(self) -> OAuthToken | None:
        from mcp.shared.auth import OAuthMetadata, OAuthToken, ProtectedResourceMetadata

        try:
            stored = _StoredTokens.model_validate_json(await self._secret(tokens_name(self._server)) or "")
            tokens = OAuthToken.model_validate(stored.tokens)
            if stored.metadata is not None:
                self.context.oauth_metadata = OAuthMetadata.model_validate(stored.metadata)
            if stored.resource is not None:
                self.context.protected_resource_metadata = ProtectedResourceMetadata.model_validate(stored.resource)
        except ValidationError:
            return None
        self.context.auth_server_url = stored.issuer
        # The library counts from when it got a token, and takes one from the store for fresh.
        self.context.token_expiry_time = 1.0 if self._stale else stored.expires_at
        return tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        stored = _StoredTokens(
            tokens=tokens.model_dump(mode="json", exclude_none=True),
            expires_at=self.context.token_expiry_time,
            metadata=_dumped(self.context.oauth_metadata),
            resource=_dumped(self.context.protected_resource_metadata),
            issuer=self.context.auth_server_url,
        )
        await self._keep(tokens_name(self._server), stored.model_dump_json())

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        from mcp.shared.auth import OAuthClientInformationFull

        try:
            text = await self._secret(client_name(self._server))
            client = OAuthClientInformationFull.model_validate_json(text or "")
        except ValidationError:
            return None
        known = [str(each) for each in client.redirect_uris or ()]
        return client if not known or self._redirect in known else None  # our address changed: register anew

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        await self._keep(client_name(self._server), client_info.model_dump_json(exclude_none=True))

    async def _secret(self, name: str) -> str | None:
        try:
            credential = await self._vault.get(OPERATOR, name)
        except CredentialError:
            return None
        return credential.secret.get_secret_value() if credential.may_be_sent_to(self._host) else None

    async def _keep(self, name: str, text: str) -> None:
        await self._vault.put(OPERATOR, name, SecretStr(text), Terms(PROVIDER, self._host))


async def has_tokens(vault: Vault, server: str, host: str) -> bool:
    """Whether somebody has signed in to a server at this host."""
    try:
        return (await vault.get(OPERATOR, tokens_name(server))).may_be_sent_to(host)
    except CredentialError:
        return False


def _dumped(model: BaseModel | None) -> dict[str, object] | None:
    if model is None:
        return None
    dumped: Mapping[str, object] = json.loads(model.model_dump_json(exclude_none=True))
    return dict(dumped)

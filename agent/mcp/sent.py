"""What a server is sent so that it lets us in: credentials in variables and headers, and a token of its own."""

from __future__ import annotations

from collections.abc import Iterable

from agent.credentials.errors import CredentialError
from agent.mcp.config import Endpoint, Program, ServerConfig, named_credentials, with_credentials
from agent.mcp.errors import CredentialNeeded
from agent.mcp.oauth import Vault
from agent.model.ids import OPERATOR
from agent.safety.known_values import SecretValues
from agent.safety.leak_detector import redact_spans

_MOST_SECRETS = 16


class Sent:
    """Fills in the operator's credentials, and remembers them to take them out of what comes back."""

    def __init__(self, config: ServerConfig, vault: Vault) -> None:
        self._config = config
        self._vault = vault
        self._latest: list[str] = []
        self._secrets = SecretValues(())

    def hide(self, text: str) -> str:
        """`text` without what was sent as a secret."""
        return redact_spans(text, self._secrets.spans(text))

    async def variables(self, program: Program) -> dict[str, str]:
        """The variables of a program. Raises CredentialNeeded."""
        return await self._filled(program.environment)

    async def headers(self, endpoint: Endpoint, *, with_token: bool) -> dict[str, str]:
        """The headers of requests, and the token among them if there is one. Raises CredentialNeeded."""
        headers = await self._filled(endpoint.headers)
        if with_token and self._config.credential is not None:
            headers["Authorization"] = f"Bearer {await self._secret(self._config.credential)}"
        elif with_token and (token := await self._token_for(endpoint)) is not None:
            headers["Authorization"] = f"Bearer {token}"
        if not "".join(headers.values()).isascii():
            raise CredentialNeeded("a credential holds characters that cannot be sent.")
        return headers

    async def _filled(self, pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
        values = dict(pairs)
        names = {name for value in values.values() for name in named_credentials(value)}
        secrets = {name: await self._secret(name) for name in sorted(names)}
        return {name: with_credentials(value, secrets) for name, value in values.items()}

    async def _token_for(self, endpoint: Endpoint) -> str | None:
        """The token that was entered for this server, at this host."""
        try:
            token = await self._vault.get(OPERATOR, self._config.token_name)
        except CredentialError:
            return None
        if not token.may_be_sent_to(endpoint.host):
            return None
        return self._remembered(self._config.token_name, token.secret.get_secret_value())

    async def _secret(self, name: str) -> str:
        """A credential that the entry names: the operator wrote where it goes."""
        try:
            credential = await self._vault.get(OPERATOR, name)
        except CredentialError:
            raise CredentialNeeded(f"it needs the credential {name}, which is not stored.") from None
        return self._remembered(name, credential.secret.get_secret_value())

    def _remembered(self, name: str, secret: str) -> str:
        if not secret.isprintable():
            raise CredentialNeeded(f"the credential {name} holds characters that cannot be sent.")
        if secret not in self._latest:
            self._latest = [*self._latest[1 - _MOST_SECRETS :], secret]
            self._secrets = SecretValues(self._latest)
        return secret

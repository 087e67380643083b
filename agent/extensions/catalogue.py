"""Well-known services: the hosts of their interfaces and how they take a key, each from the service's own reference."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Scheme(StrEnum):
    """How a request carries a key."""

    BEARER = "bearer"
    BASIC = "basic"
    HEADER = "header"
    QUERY = "query"


@dataclass(frozen=True, slots=True)
class Service:
    """A service, called like its credential. `hosts` are exact, or `*.` and a domain. `field`: of header and query."""

    name: str
    hosts: tuple[str, ...]
    scheme: Scheme
    field: str = ""

    @property
    def host_pattern(self) -> str:
        """The hosts as the terms of a credential hold them."""
        return " ".join(self.hosts)


WELL_KNOWN = (
    Service("airtable", ("api.airtable.com",), Scheme.BEARER),
    Service("anthropic", ("api.anthropic.com",), Scheme.HEADER, "x-api-key"),
    Service("asana", ("app.asana.com",), Scheme.BEARER),
    Service("brave", ("api.search.brave.com",), Scheme.HEADER, "X-Subscription-Token"),
    Service("cloudflare", ("api.cloudflare.com",), Scheme.BEARER),
    Service("digitalocean", ("api.digitalocean.com",), Scheme.BEARER),
    Service("gemini", ("generativelanguage.googleapis.com",), Scheme.HEADER, "x-goog-api-key"),
    Service("github", ("api.github.com", "uploads.github.com"), Scheme.BEARER),
    Service("gitlab", ("gitlab.com",), Scheme.HEADER, "PRIVATE-TOKEN"),
    Service("linear", ("api.linear.app",), Scheme.HEADER, "Authorization"),
    Service("notion", ("api.notion.com",), Scheme.BEARER),
    Service("openai", ("api.openai.com",), Scheme.BEARER),
    Service("openrouter", ("openrouter.ai",), Scheme.BEARER),
    Service("sendgrid", ("api.sendgrid.com",), Scheme.BEARER),
    Service("slack", ("slack.com",), Scheme.BEARER),
    Service("stripe", ("api.stripe.com",), Scheme.BEARER),
)
"""Only services whose key stands in a header: one in the path of an address would be written down on the way."""

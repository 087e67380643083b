"""What a call costs. Money is Decimal, in US dollars.

Prices were read on 2026-11-30 from OpenAI's pricing page (standard tier, prompts up to 272,000 tokens) and Anthropic's
(cache writes for five minutes). Longer prompts and premium tiers cost more than is counted here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal

from agent.llm.base import Usage

_MILLION = Decimal(1_000_000)


@dataclass(frozen=True, slots=True)
class Price:
    """Dollars for a million tokens. Cache prices are those of tokens read from and written to the provider's cache."""

    input: Decimal
    output: Decimal
    cache_read: Decimal
    cache_write: Decimal


FREE = Price(Decimal(0), Decimal(0), Decimal(0), Decimal(0))


def _price(input_price: str, output: str, read: str | None = None, write: str | None = None) -> Price:
    base = Decimal(input_price)
    return Price(base, Decimal(output), Decimal(read) if read else base, Decimal(write) if write else base)


# A model without a known price is not free: a budget has to hold for it too.
UNKNOWN = _price("2.50", "10")

_PRICES: tuple[tuple[str, Price], ...] = (
    (r"gpt-6\.2-astra", _price("8", "40", "0.40", "10")),
    (r"gpt-6-astra", _price("10", "50", "1", "12.50")),
    (r"gpt-6\.[1-9]-sol", _price("2", "10", "0.10", "2.50")),
    (r"gpt-6-sol", _price("2", "10", "0.20", "2.50")),
    (r"gpt-6(?:\.\d)?-terra", _price("1", "5", "0.05", "1.25")),
    (r"gpt-6(?:\.\d)?-luna", _price("0.10", "0.50", "0.01", "0.125")),
    (r"gpt-5\.6-sol", _price("4", "20", "0.40")),
    (r"gpt-5\.6-terra", _price("2", "12", "0.20")),
    (r"gpt-5\.6-luna", _price("0.20", "1.20", "0.02")),
    (r"gpt-5\.5-pro", _price("30", "180")),
    (r"gpt-5\.5", _price("5", "30", "0.50")),
    (r"gpt-5\.4-pro", _price("30", "180")),
    (r"gpt-5\.4-mini", _price("0.75", "4.50", "0.075")),
    (r"gpt-5\.4-nano", _price("0.20", "1.25", "0.02")),
    (r"gpt-5\.4", _price("2.50", "15", "0.25")),
    (r"gpt-5\.2-pro", _price("21", "168")),
    (r"gpt-5\.[23]", _price("1.75", "14", "0.175")),
    (r"gpt-5(?:\.1)?-mini", _price("0.25", "2", "0.025")),
    (r"gpt-5-nano", _price("0.05", "0.40", "0.005")),
    (r"gpt-5-pro", _price("15", "120")),
    (r"gpt-5(?:\.1)?", _price("1.25", "10", "0.125")),
    (r"gpt-4\.1-mini", _price("0.40", "1.60", "0.10")),
    (r"gpt-4\.1-nano", _price("0.10", "0.40", "0.025")),
    (r"gpt-4\.1", _price("2", "8", "0.50")),
    (r"gpt-4o-mini", _price("0.15", "0.60", "0.075")),
    (r"gpt-4o", _price("2.50", "10", "1.25")),
    (r"o3-mini|o4-mini", _price("1.10", "4.40", "0.55")),
    (r"o3", _price("2", "8", "0.50")),
    (r"o1", _price("15", "60", "7.50")),
    (r"claude-(?:fable|mythos)-5-2", _price("8", "40", "0.20", "10")),
    (r"claude-(?:fable|mythos)-5-1", _price("10", "50", "0.25", "12.50")),
    (r"claude-(?:fable|mythos)-(?:5|preview)", _price("10", "50", "1", "12.50")),
    (r"claude-opus-5-5", _price("4", "20", "0.20", "5")),
    (r"claude-opus-(?:5|4-[5-9])", _price("5", "25", "0.50", "6.25")),
    (r"claude-opus-4(?:-[01])?|claude-3-opus", _price("15", "75", "1.50", "18.75")),
    (r"claude-sonnet-5-5", _price("2", "10", "0.10", "2.50")),
    (r"claude-sonnet-5", _price("2", "10", "0.20", "2.50")),
    (r"claude-(?:sonnet-4(?:-[56])?|3-[57]-sonnet)", _price("3", "15", "0.30", "3.75")),
    # Prompts over 100,000 tokens cost five times this.
    (r"claude-haiku-5-5", _price("0.10", "0.50", "0.01", "0.125")),
    (r"claude-haiku-4(?:-5)?", _price("1", "5", "0.10", "1.25")),
    (r"claude-3-5-haiku", _price("0.80", "4", "0.08", "1")),
)
# OpenAI, pricing page, 2026-11-30: a million tokens of input; there is no output.
_EMBEDDING_PRICES = {
    "text-embedding-3-small": _price("0.02", "0"),
    "text-embedding-3-large": _price("0.13", "0"),
    "text-embedding-ada-002": _price("0.10", "0"),
}
_UNKNOWN_EMBEDDING = _price("0.13", "0")
# OpenAI, pricing page: pictures are output. No model for pictures costs more than the first one did.
_IMAGE_PRICE = _price("10", "40")
# A name may end in a date or a stage, not in the name of a sibling.
_TABLE = tuple((re.compile(rf"(?:{name})(?:-\d{{4,8}}.*|-latest|-chat-latest|-preview)?$"), p) for name, p in _PRICES)


def price_of(provider: str, model: str) -> Price:
    """The price of a model. Free is only what runs in this process; a server of one's own costs the default."""
    if provider == "local":
        return FREE
    name = model.rpartition("/")[2]  # OpenRouter: "openai/gpt-5.4"
    return next((price for pattern, price in _TABLE if pattern.match(name)), UNKNOWN)


def embedding_price_of(model: str) -> Price:
    """The price of a model that gives vectors; an unknown one costs as much as OpenAI's large one."""
    return _EMBEDDING_PRICES.get(model.rpartition("/")[2], _UNKNOWN_EMBEDDING)


def image_price() -> Price:
    """The price of a model that draws: the highest there was, so that a budget holds."""
    return _IMAGE_PRICE


def cost_of(usage: Usage, price: Price) -> Decimal:
    """Dollars for one call."""
    uncached = max(0, usage.input_tokens - usage.cache_read_tokens - usage.cache_write_tokens)
    return (
        price.input * uncached
        + price.cache_read * usage.cache_read_tokens
        + price.cache_write * usage.cache_write_tokens
        + price.output * usage.output_tokens
    ) / _MILLION

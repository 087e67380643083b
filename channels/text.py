"""What every text goes through at the edge."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator


def whole_text(text: str) -> str:
    """`text` without halves of surrogate pairs, which neither a database nor a platform can take.

    JSON can carry the two halves of a character in two escapes, or one alone: pairs are joined, a half alone becomes
    U+FFFD.
    """
    return text if text.isascii() else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


WholeText = Annotated[str, AfterValidator(whole_text)]
"""A text of a person, a platform or a model, as a field of a record."""

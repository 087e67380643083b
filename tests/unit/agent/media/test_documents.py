from __future__ import annotations

import random
from datetime import timedelta

import pytest

from agent.media import extract
from agent.media.documents import DocumentText, NoText, document_kind, document_text
from tests.support.documents import ENTITIES, packed, pdf, png, word

SHEET = packed(
    {
        "xl/workbook.xml": "<x/>",
        "xl/sharedStrings.xml": "<sst><si><t>Name</t></si><si><r><t>Co</t></r><r><t>st</t></r></si></sst>",
        "xl/worksheets/sheet1.xml": '<w><row><c t="s"><v>0</v></c><c t="s"><v>1</v></c></row>'
        '<row><c t="inlineStr"><is><t>Tea</t></is></c><c><f>2+2</f><v>4</v></c><c t="s"><v>99</v></c></row></w>',
    }
)
SLIDES = packed(
    {
        "ppt/presentation.xml": "<x/>",
        "ppt/slides/slide10.xml": "<s><a:p xmlns:a='a'><a:t>last</a:t></a:p></s>",
        "ppt/slides/slide2.xml": "<s><a:p xmlns:a='a'><a:t>first</a:t></a:p></s>",
    }
)
OPEN = packed(
    {
        "mimetype": "application/vnd.oasis.opendocument.text",
        "content.xml": "<o:d xmlns:o='o'><o:style>no</o:style>"
        "<o:p>One <o:span>two</o:span></o:p><o:h>Three</o:h></o:d>",
    }
)


@pytest.mark.parametrize(
    ("kind", "data", "text"),
    [
        ("pdf", pdf("Hello", "World"), "Hello\n\nWorld"),
        ("word", word("Tea &amp; cake", "Two"), "Tea & cake\nTwo"),
        ("sheet", SHEET, "Name\tCost\nTea\t4"),
        ("slides", SLIDES, "first\n\nlast"),
    ],
    ids=lambda value: value if isinstance(value, str) else f"{len(value)} bytes",
)
async def test_text_of_a_document_is_read_in_its_order(kind: str, data: bytes, text: str) -> None:
    assert document_kind(data) == kind
    assert await document_text(kind, data) == DocumentText(text)


async def test_open_document_is_read() -> None:
    # The standard wants the type unpacked, as the first member.
    data = OPEN.replace(b"mimetype", b"mimetype", 1)

    assert extract.extract("open", data) == "One two\nThree"


@pytest.mark.parametrize("data", [b"", b"PK", png(), packed({"a.txt": "x"}), b"plain text"], ids=len)
def test_what_is_no_document_has_no_kind(data: bytes) -> None:
    assert document_kind(data) is None


@pytest.mark.parametrize(
    ("kind", "data", "why"),
    [
        ("pdf", pdf(""), NoText.EMPTY),
        ("pdf", pdf("secret", password="x"), NoText.PROTECTED),
        ("pdf", b"%PDF-1.7\n" + b"<<" * 5000, NoText.BROKEN),
        ("pdf", pdf("Hello")[:300], NoText.BROKEN),
        ("word", packed({"word/document.xml": ENTITIES}), NoText.BROKEN),
        ("word", packed({"word/document.xml": "<a>" * 100_000}), NoText.BROKEN),
        ("word", packed({"word/document.xml": b"<a>" + b" " * 60_000_000}), NoText.BROKEN),
        ("word", packed({f"word/{number}": "" for number in range(3_001)}), NoText.BROKEN),
        ("word", word("cut")[:60], NoText.BROKEN),
        ("sheet", packed({"xl/worksheets/sheet1.xml": '<r><c t="s"><v>9</v></c>'}), NoText.BROKEN),
    ],
    ids=lambda value: value if isinstance(value, str) else f"{len(value)} bytes",
)
async def test_hostile_or_broken_document_is_given_up(kind: str, data: bytes, why: NoText) -> None:
    assert await document_text(kind, data) == why


async def test_entities_of_a_document_open_no_file_of_the_machine() -> None:
    data = packed({"word/document.xml": ENTITIES})

    with pytest.raises(extract.Unreadable):
        extract.extract("word", data)


async def test_document_that_takes_too_long_is_given_up_and_its_process_is_gone() -> None:
    assert await document_text("pdf", pdf("Hello"), timedelta(milliseconds=1)) == NoText.TOO_HARD


async def test_long_document_is_read_up_to_a_bound() -> None:
    found = await document_text("word", word(*["x" * 1000] * 300))

    assert isinstance(found, DocumentText)
    assert (len(found.text), found.is_whole) == (extract.MOST_CHARACTERS, False)


@pytest.mark.parametrize("kind", ["pdf", "word", "sheet", "slides", "open"])
async def test_random_bytes_are_given_up(kind: str) -> None:
    noise = random.Random(kind)
    for start in (b"", b"%PDF-1.4\n", b"PK\x03\x04"):
        assert isinstance(await document_text(kind, start + noise.randbytes(2_000)), NoText)


async def test_damaged_documents_never_break_more_than_themselves() -> None:
    noise = random.Random(7)
    for kind, whole in (("pdf", pdf("Hello", "World")), ("sheet", SHEET)) * 4:
        data = bytearray(whole)
        for _ in range(noise.randrange(1, 20)):
            data[noise.randrange(len(data))] = noise.randrange(256)
        assert isinstance(await document_text(kind, bytes(data)), NoText | DocumentText)

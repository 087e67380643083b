"""Small files of many kinds, as people send them."""

from __future__ import annotations

import io
import struct
import zipfile
import zlib
from collections.abc import Mapping

from pypdf import PdfWriter
from pypdf.generic import DecodedStreamObject, DictionaryObject, NameObject

from channels.message import Attachment, AttachmentKind, IncomingMessage

ENTITIES = b"""<!DOCTYPE t [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;"><!ENTITY f SYSTEM "file:///etc/passwd">]>
<w:t xmlns:w="w">&b;&f;</w:t>"""


def png(width: int = 3, height: int = 2, *, shade: int = 0) -> bytes:
    """A whole picture in one shade."""
    rows = b"".join(b"\0" + bytes((shade,)) * width for _ in range(height))
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", header) + _chunk(b"IDAT", zlib.compress(rows)) + _chunk(b"IEND", b"")


def pdf(*pages: str, password: str | None = None) -> bytes:
    """A document with a line of text on each page."""
    writer = PdfWriter()
    font = DictionaryObject(
        {
            NameObject("/Type"): NameObject("/Font"),
            NameObject("/Subtype"): NameObject("/Type1"),
            NameObject("/BaseFont"): NameObject("/Helvetica"),
        }
    )
    for text in pages:
        page = writer.add_blank_page(300, 300)
        content = DecodedStreamObject()
        content.set_data(b"BT /F1 12 Tf 20 200 Td (" + text.encode("latin-1") + b") Tj ET")
        page[NameObject("/Contents")] = writer._add_object(content)
        page[NameObject("/Resources")] = DictionaryObject(
            {NameObject("/Font"): DictionaryObject({NameObject("/F1"): font})}
        )
    if password is not None:
        writer.encrypt(password)
    written = io.BytesIO()
    writer.write(written)
    return written.getvalue()


def packed(members: Mapping[str, bytes | str]) -> bytes:
    """A zip archive."""
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return written.getvalue()


def word(*paragraphs: str) -> bytes:
    """A Word document."""
    body = "".join(f"<w:p><w:r><w:t>{text}</w:t></w:r></w:p>" for text in paragraphs)
    return packed({"word/document.xml": f'<w:document xmlns:w="w"><w:body>{body}</w:body></w:document>'})


def attachment(
    filename: str | None = "notes.txt",
    mime_type: str = "text/plain",
    *,
    kind: AttachmentKind = AttachmentKind.DOCUMENT,
    size: int | None = None,
    source: str | None = None,
) -> Attachment:
    """A file as a platform names it; its handle is its name unless told otherwise."""
    handle = source or filename or "nameless"
    return Attachment(id=handle, kind=kind, mime_type=mime_type, filename=filename, size_bytes=size, source=handle)


def photo(filename: str | None = "cat.png", *, source: str | None = None) -> Attachment:
    """A picture as a platform names it."""
    return attachment(filename, "image/png", kind=AttachmentKind.IMAGE, source=source)


def with_files(message: IncomingMessage, *files: Attachment) -> IncomingMessage:
    """The message with files attached."""
    return message.model_copy(update={"attachments": files})


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

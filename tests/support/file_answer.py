"""How the fakes of chat platforms hand out a file."""

from __future__ import annotations

from aiohttp import web


async def file_answer(request: web.Request, content: bytes, *, tells_length: bool) -> web.StreamResponse:
    """An answer with a file; without its length, it comes in pieces until the reader has enough."""
    if tells_length:
        return web.Response(body=content)
    answer = web.StreamResponse()
    answer.enable_chunked_encoding()
    await answer.prepare(request)
    for start in range(0, len(content), 1000):
        await answer.write(content[start : start + 1000])
    return answer

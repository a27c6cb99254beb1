"""Fields of forms and addresses, strictly in UTF-8."""

from __future__ import annotations

import urllib.parse
from collections.abc import Iterable, Iterator

import fastapi
import python_multipart
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import parse_options_header
from starlette.exceptions import HTTPException

from keras_transformer.server.http_json import check_charset, decoded

# Name and value of a field.
_Field = tuple[bytes, bytes]
# RFC 7578, 4.6: tells the encoding of the other fields.
_CHARSET_FIELD = "_charset_"


async def read_fields(
    request: fastapi.Request, max_fields: int
) -> dict[str, str | list[str]]:
    """Return the fields of an address and of a form in the body.

    A file is a field whose value is its content. What comes several times is a list, as
    in JSON.

    Args:
        request: The request; a body that is not a form has no fields.
        max_fields: Most fields of the address, and of the body.

    Raises:
        HTTPException: If there are more, or something is not UTF-8.
    """
    header = request.headers.get("content-type", "")
    check_charset(header, "The form")
    kind, _ = parse_options_header(header)
    in_body: Iterable[_Field] = ()
    if kind == b"application/x-www-form-urlencoded":
        in_body = _urlencoded(await request.body(), max_fields)
    elif kind == b"multipart/form-data":
        in_body = _multipart(header, await request.body(), max_fields)
    in_address = _urlencoded(request.scope["query_string"], max_fields)
    return {**_values(in_address), **_values(in_body)}


def _urlencoded(content: bytes, max_fields: int) -> Iterator[_Field]:
    """Yield the fields of "a=1&b=2", whose bytes may be encoded or not."""
    try:
        # Latin-1 has a character for each byte.
        found = urllib.parse.parse_qsl(
            content.decode("latin-1"),
            keep_blank_values=True,
            encoding="latin-1",
            max_num_fields=max_fields,
        )
    except ValueError as error:
        raise _too_many(max_fields) from error
    for name, value in found:
        yield name.encode("latin-1"), value.encode("latin-1")


def _multipart(header: str, content: bytes, max_fields: int) -> list[_Field]:
    found = []

    def add(part, value):
        if len(found) == max_fields:
            raise _too_many(max_fields)
        name = part.field_name or b""
        check_charset(part.content_type or "", name.decode("utf-8", "replace"))
        found.append((name, value))

    def add_file(part):
        part.file_object.seek(0)
        add(part, part.file_object.read())
        part.close()

    ends = []
    _, options = parse_options_header(header)
    try:
        python_multipart.FormParser(
            "multipart/form-data",
            lambda part: add(part, part.value or b""),
            add_file,
            on_end=lambda: ends.append(True),
            boundary=options.get(b"boundary"),
            config={
                "MAX_MEMORY_FILE_SIZE": len(content) + 1,
                "UPLOAD_ERROR_ON_BAD_CTE": True,
            },
        ).write(content)
    except FormParserError as error:
        raise HTTPException(400, f"The form is damaged: {error}") from error
    if not ends:
        raise HTTPException(400, "The form is damaged: its end is missing")
    return found


def _values(fields: Iterable[_Field]) -> dict[str, str | list[str]]:
    lists: dict[str, list[str]] = {}
    for raw_name, raw_value in fields:
        name = decoded(raw_name, "The name of a field")
        value = decoded(raw_value, name)
        if name == _CHARSET_FIELD:
            check_charset(f"a/b; charset={value}", "The form")
        lists.setdefault(name, []).append(value)
    return {
        name: values if len(values) > 1 else values[0] for name, values in lists.items()
    }


def _too_many(max_fields: int) -> HTTPException:
    return HTTPException(413, f"A form may have {max_fields:,} fields.")

"""Files that come as a form (multipart/form-data, RFC 7578), in a body that is there already as a whole.

Nothing is written to a disk, names of files are not looked at, and what a part says of its type is not believed: a
picture is known by its first bytes.
"""

import logging
from base64 import b64encode
from collections.abc import Iterable
from dataclasses import dataclass, field
from string import ascii_letters, digits
from typing import Any

from pydantic_core import from_json
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header

from demur.library.nearest import shown
from demur.serve.contract.body import check_structure, check_whole_numbers
from demur.serve.contract.inputs import InputSpec, InvalidRequest, TooLarge
from demur.serve.contract.pictures.formats import NAMES, format_of, url_of
from demur.serve.contract.wire import MalformedBody

logging.getLogger("python_multipart").setLevel(logging.ERROR)  # it warns of what the caller is told

FILE, REQUEST = "file", "request"
"""The names of parts that are no text: the files, and an object with other keys of the request."""

TEXTS = ("model", "group", "cluster")
"""Keys of a request that may be parts of their own."""

MOST_OTHERS = 1 + len(TEXTS)
"""How many parts that are no files a form may have."""

OTHER_BYTES = 256 * 1024
"""The most bytes of a part that is no file."""

MOST_HEADERS, HEADER_BYTES = 8, 4096
"""How many headers a part may have, and how many bytes each of them."""

LONGEST_TYPE, LONGEST_BOUNDARY = 512, 70
BOUNDARY_CHARACTERS = (ascii_letters + digits + "'()+_,-./:=? ").encode()
"""RFC2046, section 5.1.1."""

UNCHANGED = (b"", b"binary", b"8bit", b"7bit")
"""Transfer encodings that leave the bytes of a part as they are."""

ENDS = (b"", b"\r\n", b"\n")
"""What may stand behind the last boundary."""


@dataclass(frozen=True)
class Upload:
    """Files for one model, and what is asked about each of them."""

    request: dict[str, Any]
    """The keys of a request but `input`, not checked yet."""

    files: list[bytes]

    @property
    def model(self) -> str:
        """The model that is asked. Raises `InvalidRequest` where none is named."""
        name = self.request.get("model")
        if not isinstance(name, str):
            raise InvalidRequest("model: the form has no part with this name; with curl, add -F model=NAME")
        return name

    def items(self, spec: InputSpec) -> list[dict[str, Any]]:
        """Return the body of a request about each file, as it would be written in JSON for a model that takes this.
        Raises `InvalidRequest` for a file that it cannot take."""
        return [{**self.request, "input": _input_of(file, spec, self.model)} for file in self.files]


def is_upload(content_type: str) -> bool:
    """Whether a body is said to have parts."""
    return content_type.lstrip().lower().startswith("multipart/")


def read_upload(body: bytes, content_type: str, *, most_files: int) -> Upload:
    """Return what a form holds. Raises `MalformedBody`, `TooLarge` or `InvalidRequest`, with the name of the part."""
    files: list[bytes] = []
    texts: dict[str, str] = {}
    request: dict[str, Any] | None = None
    for name, content in _parts(body, _boundary_in(content_type), most=most_files + MOST_OTHERS):
        if name == FILE:
            files.append(content)
            continue
        if len(content) > OTHER_BYTES:
            raise TooLarge(f"{_at(name)}: this part has {len(content):,} bytes; at most {OTHER_BYTES:,} are taken")
        if name in texts or (name == REQUEST and request is not None):
            raise InvalidRequest(f"{_at(name)}: this part came twice; send it once")
        if name == REQUEST:
            request = _object_in(content)
        elif name in TEXTS:
            texts[name] = _text_in(name, content)
        else:
            raise InvalidRequest(
                f"{_at(name)}: this part is not known; a form has one or more parts `{FILE}`, the parts"
                f" {', '.join(f'`{one}`' for one in TEXTS)}, and `{REQUEST}`, a JSON object of all other keys"
            )
    told = request or {}
    if both := [name for name in texts if name in told]:
        raise InvalidRequest(f"{both[0]}: it is a part of its own and stands in `{REQUEST}` too; send it once")
    if "input" in told:
        raise InvalidRequest(f"{REQUEST}.input: the file is the input; leave this key out")
    if not files:
        raise InvalidRequest(f"{FILE}: a part with this name and a file in it is missing (curl -F {FILE}=@picture.png)")
    return Upload({**texts, **told}, files)


def _input_of(file: bytes, spec: InputSpec, model: str) -> str:
    form = format_of(file)
    if form is not None and spec.kind in ("image", "bytes", "given"):
        return url_of(file, form)
    if spec.kind == "bytes":
        return b64encode(file).decode()
    if spec.kind in ("image", "given"):
        raise InvalidRequest(
            f"{FILE}: this is not a {NAMES}; with curl, an @ stands before the name of a file ({FILE}=@picture.png)"
        )
    raise InvalidRequest(f"{FILE}: model {model!r} takes no files; send what it takes as JSON")


def _boundary_in(content_type: str) -> bytes:
    if len(content_type) > LONGEST_TYPE:
        raise InvalidRequest(f"Content-Type: it is longer than {LONGEST_TYPE} characters")
    kind, options = parse_options_header(content_type)
    if kind.strip() != b"multipart/form-data":
        raise InvalidRequest(
            f"Content-Type: {shown(kind.decode('latin-1'))} is not taken; send JSON, or files as multipart/form-data"
        )
    boundary = options.get(b"boundary", b"")
    if not boundary:
        raise InvalidRequest("Content-Type: the boundary is missing; let your HTTP client write this header by itself")
    if len(boundary) > LONGEST_BOUNDARY or boundary.translate(None, BOUNDARY_CHARACTERS) or boundary.endswith(b" "):
        raise InvalidRequest("Content-Type: this boundary is not one that MIME allows; take up to 70 letters")
    return boundary


def _parts(body: bytes, boundary: bytes, *, most: int) -> Iterable[tuple[str, bytes]]:
    """Yield name and content of each part. The boundaries are counted before anything is read: each costs a hundred
    times its bytes."""
    delimiter = b"--" + boundary
    count = body.count(b"\r\n" + delimiter) + body.startswith(delimiter)
    if count > most + 1:
        raise TooLarge(f"the form has {count - 1:,} parts; at most {most:,} are taken")
    form = PartCollector()
    parser = MultipartParser(boundary, form.callbacks(), max_header_count=MOST_HEADERS, max_header_size=HEADER_BYTES)
    try:
        parser.write(body)
    except FormParserError as error:
        raise MalformedBody(
            f"the form cannot be read at byte {max(0, getattr(error, 'offset', 0)):,}: each part begins with the"
            " boundary that Content-Type names, on a line of its own, and has a few short headers"
        ) from None
    if not form.ended:
        raise MalformedBody("the form is cut short: the boundary that ends it is missing")
    last = body.rfind(delimiter + b"--")
    if body[last + len(delimiter) + 2 :] not in ENDS or count != len(form.parts) + 1:
        raise MalformedBody("bytes stand behind the end of the form, or its boundary stands within a part of it")
    return [(part.name(at), part.content) for at, part in enumerate(form.parts)]


@dataclass
class FormPart:
    headers: dict[bytes, bytes] = field(default_factory=dict)
    content: bytes = b""

    def name(self, at: int) -> str:
        """The name of the part, which stands at this place in the form."""
        kind, options = parse_options_header(self.headers.get(b"content-disposition", b"").decode("latin-1"))
        try:
            name = options[b"name"].decode()
        except (KeyError, UnicodeDecodeError):
            name = ""
        if kind.strip() != b"form-data" or not name:
            raise InvalidRequest(
                f"part {at} of the form: it has no name; it begins with a header such as Content-Disposition:"
                f' form-data; name="{FILE}"'
            )
        if self.headers.get(b"content-transfer-encoding", b"").strip().lower() not in UNCHANGED:
            raise InvalidRequest(f"{_at(name)}: no Content-Transfer-Encoding is taken; send the bytes as they are")
        return name


class PartCollector:
    """Takes what the parser finds."""

    def __init__(self) -> None:
        self.parts: list[FormPart] = []
        self.ended = False
        self._header, self._value = b"", b""

    def callbacks(self) -> Any:
        return {
            "on_part_begin": lambda: self.parts.append(FormPart()),
            "on_header_field": self._header_field,
            "on_header_value": self._header_value,
            "on_header_end": self._header_ends,
            "on_part_data": self._data,
            "on_end": self._ends,
        }

    def _header_field(self, data: bytes, start: int, end: int) -> None:
        self._header += data[start:end]

    def _header_value(self, data: bytes, start: int, end: int) -> None:
        self._value += data[start:end]

    def _header_ends(self) -> None:
        headers, name = self.parts[-1].headers, self._header.lower()
        if name in headers:
            raise InvalidRequest(f"part {len(self.parts) - 1} of the form: a header stands in it twice")
        headers[name] = self._value
        self._header, self._value = b"", b""

    def _data(self, data: bytes, start: int, end: int) -> None:
        self.parts[-1].content += data[start:end]  # it comes in one piece, but where the boundary nearly stands in it

    def _ends(self) -> None:
        self.ended = True


def _object_in(content: bytes) -> dict[str, Any]:
    check_structure(content)
    try:
        told = from_json(content)  # unlike json.loads it refuses half a surrogate pair, which nobody could write
    except ValueError as error:
        raise MalformedBody(f"{REQUEST}: this part is not JSON: {error}") from None
    check_whole_numbers(told)
    if not isinstance(told, dict):
        raise InvalidRequest(f"{REQUEST}: a JSON object of keys and values is wanted here")
    return told


def _text_in(name: str, content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise InvalidRequest(f"{name}: the text is not UTF-8") from None


def _at(name: str) -> str:
    return name if name.isidentifier() and len(name) <= LONGEST_BOUNDARY else shown(name)

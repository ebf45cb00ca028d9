"""What the document of a gateway says of forms with files."""

from typing import Any

from demur.serve.contract.upload import FILE, REQUEST

FILE_SCHEMA: dict[str, Any] = {
    "type": "string",
    "format": "binary",
    "description": "A PNG, JPEG or WebP for a model that takes images, and any bytes for one that takes bytes. Its name"
    " and its content type are not looked at.",
}
FILES_SCHEMA: dict[str, Any] = {
    "type": "array",
    "minItems": 1,
    "maxItems": 1024,
    "items": FILE_SCHEMA,
    "description": "Each is a prediction of its own. All parts have the name `file`.",
}


def upload_schema(file: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a form with these files, and with keys of a request in JSON beside them."""
    word = {"type": "string", "minLength": 1, "maxLength": 200}
    return {
        "type": "object",
        "required": ["model", FILE],
        "additionalProperties": False,
        "properties": {
            FILE: file,
            "model": {
                "type": "string",
                "description": "As in JSON, and so are the others. It may stand in `request` too.",
            },
            "group": word,
            "cluster": word,
            REQUEST: {
                "type": "object",
                "description": "Keys that are no texts, such as `review` or `output`, as a JSON object.",
            },
        },
    }

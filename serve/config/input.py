"""What a model takes, where the model itself does not say: texts, pairs, images, rows of a table, bytes, any JSON."""

from collections.abc import Mapping
from functools import cached_property
from typing import Any, Literal

from pydantic import Field, model_validator

from demur.library.settings import GatheredMistakes
from demur.serve.config.settings import Section

MOST_COLUMNS = 10_000

NO_SIZE = "an image has `channels`, 1 or 3, and the `height` and `width` that the model takes"

ColumnKind = Literal["number", "integer", "numeric", "boolean", "category", "text"]

NUMBERS: tuple[ColumnKind, ...] = ("number", "integer", "numeric")


class ColumnConfig(Section):
    """One column of a table."""

    kind: ColumnKind = "number"
    """`number`, finite; `integer`, a whole number; `boolean`, true or false; `numeric`, a number, or true as 1 and
    false as 0; `category`, one of a few texts; `text`, any text."""

    missing: bool = False
    """Whether a row may come without it, or with null. The model then gets NaN for a number, and nothing for a text."""

    min: float | None = None
    """The least number that is taken."""

    max: float | None = None
    """The largest number that is taken."""

    values: tuple[str, ...] = ()
    """The known categories; empty where any is taken."""

    unknown: Literal["refuse", "missing", "keep"] = "refuse"
    """What becomes of a category that is not among `values`: the row is refused, the value counts as missing, or the
    model gets it as it is."""

    @property
    def is_numeric(self) -> bool:
        """Whether the model gets a number."""
        return self.is_number or self.kind == "boolean"

    @property
    def is_number(self) -> bool:
        """Whether a request brings a number."""
        return self.kind in NUMBERS

    @cached_property
    def known(self) -> frozenset[str]:
        """The known categories, for looking one up."""
        return frozenset(self.values)

    @model_validator(mode="after")
    def settings_suit_the_kind(self) -> "ColumnConfig":
        gathered = GatheredMistakes()
        for name, kinds in (("min", NUMBERS), ("max", NUMBERS), ("values", ("category",))):
            with gathered:
                if getattr(self, name) not in (None, ()) and self.kind not in kinds:
                    raise ValueError(f"{name}: it is for a {kinds[0]}, and this column is of the kind {self.kind}")
        with gathered:
            if self.unknown != "refuse" and not self.values:
                raise ValueError("unknown: no category is unknown while `values` lists none")
        with gathered:
            if self.unknown == "missing" and not self.missing:
                raise ValueError("unknown: an unknown category can only count as missing with `missing: true`")
        with gathered:
            if self.min is not None and self.max is not None and self.min > self.max:
                raise ValueError(f"min: it is {self.min:g}, above max, {self.max:g}")
        with gathered:
            if len(set(self.values)) < len(self.values):
                raise ValueError("values: one of them is listed twice")
        gathered.check()
        return self


class InputConfig(Section):
    """What one input is."""

    kind: Literal["text", "text_pair", "image", "table", "bytes", "json"]
    """`table`: one row, as an object with a value for each column, or as an array in their order. `bytes`: in base64.
    `json`: anything, which the model reads by itself."""

    channels: int = Field(default=0, ge=0, le=4)
    """Of an image: 1 for grey, 3 for colours. Where no size is written, the model's own file has to say it."""

    height: int = Field(default=0, ge=0)
    width: int = Field(default=0, ge=0)

    columns: dict[str, ColumnConfig] = Field(default={}, max_length=MOST_COLUMNS)
    """Of a table, in the order in which the model takes them. Where none is named, the model's own file has to name
    them."""

    missing: bool | None = None
    """Of a table without `columns`: whether a row may come without any of the values; by default as the model's own
    file shows."""

    @model_validator(mode="before")
    @classmethod
    def short_forms(cls, values: Any) -> Any:
        """`text` for `{kind: text}`; in `columns`, `number` for `{kind: number}`, and a list for the categories."""
        if isinstance(values, str):
            return {"kind": values}
        if isinstance(values, Mapping) and isinstance(columns := values.get("columns"), Mapping):
            return {**values, "columns": {name: _column(one) for name, one in columns.items()}}
        return values

    @model_validator(mode="after")
    def settings_suit_the_kind(self) -> "InputConfig":
        sized = self.channels, self.height, self.width
        if self.kind == "image" and any(sized) and not self.is_sized:
            raise ValueError(NO_SIZE)
        if self.kind != "image" and any(sized):
            raise ValueError(f"channels, height and width are for images, and the kind is {self.kind}")
        if self.kind != "table" and self.columns:
            raise ValueError(f"columns: they are for a table, and the kind is {self.kind}")
        if self.missing is not None and (self.kind != "table" or self.columns):
            raise ValueError("missing: it is for a table whose columns the model's file names; write it at each column")
        return self

    @property
    def is_sized(self) -> bool:
        """Whether the size of an image is known."""
        return self.channels in (1, 3) and min(self.height, self.width) >= 1


def check_complete(value: InputConfig) -> None:
    """Raise `ValueError` where the size of an image, or the columns of a table, are left to a file that names them, and
    there is none."""
    if value.kind == "image" and not value.is_sized:
        raise ValueError(NO_SIZE)
    if value.kind == "table" and not value.columns:
        raise ValueError("columns: name the columns of the table, such as `columns: {age: number}`")


def _column(value: Any) -> Any:
    if isinstance(value, str):
        return {"kind": value}
    return {"kind": "category", "values": value} if isinstance(value, list | tuple) else value

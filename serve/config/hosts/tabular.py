"""Models in one file that are asked about rows of a table: `host: {kind: sklearn}`, `xgboost` or `lightgbm`."""

from typing import ClassVar, Literal

from pydantic import field_validator

from demur.serve.config.hosts.model_file import FileHost
from demur.serve.config.input import InputConfig
from demur.uncertainty.output import Need


class TableHost(FileHost):
    """What every host of a model has that lies in one file and is asked about rows of a table. By default these have
    the columns that the file names."""

    uses_gpu: ClassVar[bool] = False
    takes: ClassVar[tuple[str, ...]] = ("table",)
    """Kinds of input that it may have."""

    @field_validator("input")
    @classmethod
    def input_is_taken(cls, value: InputConfig | None) -> InputConfig | None:
        if value is not None and value.kind not in cls.takes:
            raise ValueError(
                f"kind: a host of this kind takes {' or '.join(cls.takes)}; for {value.kind} write a class of your own"
                " (`host.kind: python`)"
            )
        return value


class SklearnHost(TableHost):
    """A fitted classifier or pipeline of scikit-learn, or of a library in its habits."""

    package: ClassVar[tuple[str, str]] = ("skops", "pip install 'demur[sklearn]'")
    takes: ClassVar[tuple[str, ...]] = ("table", "text")

    kind: Literal["sklearn"]
    trusted: tuple[str, ...] = ()
    """Types in a file of skops that somebody has looked at, beside those that skops itself vouches for."""

    trust: bool = False
    """Whether the file may run any code when it is loaded, as every file of joblib or pickle can."""

    @property
    def may_give(self) -> frozenset[Need]:
        return frozenset({"probabilities", "embedding"})


class XgboostHost(TableHost):
    """Trees of XGBoost, in its own JSON or UBJ."""

    package: ClassVar[tuple[str, str]] = ("xgboost", "pip install 'demur[xgboost]'")
    kind: Literal["xgboost"]


class LightgbmHost(TableHost):
    """Trees of LightGBM, in its own text format."""

    package: ClassVar[tuple[str, str]] = ("lightgbm", "pip install 'demur[lightgbm]'")
    kind: Literal["lightgbm"]

"""Files of fitted models of scikit-learn: skops, whose types are checked, or joblib and pickle, which run code."""

import warnings
import zipfile
from collections.abc import Iterable
from typing import Any

from sklearn.base import BaseEstimator, is_regressor
from sklearn.exceptions import InconsistentVersionWarning, NotFittedError
from sklearn.utils.validation import check_is_fitted

from demur.serve.config.hosts.tabular import SklearnHost
from demur.serve.contract.user_code import search_here
from demur.serve.hosts.kind import BadModel

HARMLESS = (
    "numpy.dtype",
    "sklearn.calibration._CalibratedClassifier",
    "sklearn.calibration._SigmoidCalibration",
    "sklearn.feature_selection._univariate_selection.f_classif",
    "sklearn.neural_network._stochastic_optimizers.AdamOptimizer",
)
"""Types that skops does not vouch for. Making one runs no code of the file, and none of them reads memory by itself."""

MOST_NAMED = 20

SMALL_BYTES = 256 * 2**20
TIMES_THE_FILE = 100
"""What a file of skops unpacks to may be small, or so many times as large as the file; more is taken for a bomb."""

ZIP = b"PK\x03\x04"
"""How an archive of the format zip begins."""


def opened(host: SklearnHost) -> tuple[Any, list[str]]:
    """Return the fitted classifier of a file, and what an operator should know about it. Raises `BadModel`."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        found = _of_skops(host) if zipfile.is_zipfile(host.file) else _of_pickle(host)
    _check_classifier(found, host)
    return found, _remarks(told, host)


def _of_skops(host: SklearnHost) -> Any:
    from skops.io import get_untrusted_types, load

    search_here()
    try:
        _check_size(host)
        unknown = get_untrusted_types(file=host.file)
        if host.trust:
            return load(host.file, trusted=unknown)
        vouched = {*HARMLESS, *host.trusted}
        if wrong := [name for name in unknown if name not in vouched]:
            raise BadModel(_untrusted(wrong, host))
        return load(host.file, trusted=[name for name in unknown if name in vouched])
    except BadModel:
        raise
    except (ImportError, AttributeError) as error:
        raise BadModel(f"host.file: {host.file} needs code that is not here: {error}; {_WAY_TO_CODE}") from error
    except Exception as error:  # a file of others: whatever is wrong with it, it is not served
        raise BadModel(
            f"host.file: {host.file} is no file that skops can read ({_told(error)}); save the model again with"
            " `skops.io.dump(model, path)`"
        ) from error


def _check_size(host: SklearnHost) -> None:
    """Raise `BadModel` for a file that would fill the memory. What is longer than it says is cut off by `zipfile`."""
    with zipfile.ZipFile(host.file) as packed:
        size = sum(inside.file_size for inside in packed.infolist())
    if size > max(SMALL_BYTES, TIMES_THE_FILE * host.file.stat().st_size):
        raise BadModel(
            f"host.file: {host.file} would unpack to {size:,} bytes, which is more than {TIMES_THE_FILE} times its"
            " size; if you trust it, save the model again without compression: `skops.io.dump(model, path)`"
        )


def _untrusted(wrong: list[str], host: SklearnHost) -> str:
    more = f" and {len(wrong) - MOST_NAMED} more" if len(wrong) > MOST_NAMED else ""
    return (
        f"host.trusted: {host.file} has types that nobody has vouched for: {', '.join(wrong[:MOST_NAMED])}{more}."
        " Loading them can run code of whoever made the file. If you made it, write"
        f" `trusted: [{', '.join([*host.trusted, *wrong])}]`"
    )


def _of_pickle(host: SklearnHost) -> Any:
    import joblib

    with open(host.file, "rb") as file:
        begins_as_zip = file.read(len(ZIP)) == ZIP
    if begins_as_zip:  # and has no end: a file of skops is a zip archive
        raise BadModel(
            f"host.file: {host.file} is no whole file of skops: it may have been cut off on its way. Copy it again, or"
            " save the model again with `skops.io.dump(model, path)`"
        )
    if not host.trust:
        raise BadModel(
            f"host.trust: {host.file} is no file of skops. A file of joblib or pickle runs code when it is loaded, of"
            " whoever made it. Save the model with `skops.io.dump(model, path)`, or write `trust: true` if you know"
            " where the file comes from"
        )
    search_here()
    try:
        return joblib.load(host.file)
    except (ImportError, AttributeError) as error:
        raise BadModel(f"host.file: {host.file} needs code that is not here: {error}; {_WAY_TO_CODE}") from error
    except Exception as error:  # as above
        raise BadModel(
            f"host.file: joblib cannot read {host.file} ({_told(error)}); save the model again with"
            " `joblib.dump(model, path)`"
        ) from error


_WAY_TO_CODE = (
    "keep what you wrote yourself in a module, not in a notebook or `__main__`, and start demur in the folder that has"
    " it, or install it"
)


def _check_classifier(found: Any, host: SklearnHost) -> None:
    name = type(found).__name__
    if isinstance(found, type) or not hasattr(found, "predict"):
        raise BadModel(f"host.file: {host.file} holds {_a(name)}, and not a fitted classifier; save the model itself")
    if isinstance(found, BaseEstimator):
        if is_regressor(found):
            raise BadModel(f"host.file: {host.file} holds {_a(name)}, which is a regressor; demur needs a classifier")
        try:
            check_is_fitted(found)
        except NotFittedError:
            raise BadModel(
                f"host.file: {host.file} holds {_a(name)} that was not fitted; call its `fit`, and save it again"
            ) from None
    if not hasattr(found, "predict_proba"):
        way_out = "wrap it in `sklearn.calibration.CalibratedClassifierCV`, fit that and save it"
        has = "it has decision_function, which is no probability" if hasattr(found, "decision_function") else ""
        raise BadModel(
            f"host.file: {_a(name)} gives no probabilities: it has no predict_proba{has and f' ({has})'}; {way_out}"
        )
    if not hasattr(found, "classes_"):
        raise BadModel(
            f"host.file: {_a(name)} does not say which classes it knows (`classes_`), so its columns have no labels;"
            " serve it through a class of your own (`host.kind: python`)"
        )


def _remarks(told: Iterable[warnings.WarningMessage], host: SklearnHost) -> list[str]:
    for warning in told:
        if isinstance(seen := warning.message, InconsistentVersionWarning):
            return [
                f"{host.file} was saved with scikit-learn {seen.original_sklearn_version}, and"
                f" {seen.current_sklearn_version} is installed, so it may predict otherwise than when it was trained;"
                " save it again with the installed version, or install the other one"
            ]
    return []


def _a(name: str) -> str:
    return f"{'an' if name[:1] in 'AEIOUaeio' else 'a'} {name}"


def _told(error: Exception) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text[:200]}" if text else type(error).__name__

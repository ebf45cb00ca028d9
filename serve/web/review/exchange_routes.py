"""Export and import over HTTP, for those who lead reviews: the same as `demur review export` and `import`."""

import tempfile
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, BinaryIO, Literal
from uuid import UUID

from fastapi import APIRouter, Query, Response
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, Field

from demur.review.cases import Filter
from demur.review.item import Status
from demur.serve.config.task import TaskConfig
from demur.serve.contract.hosts import UnknownModel
from demur.serve.web.review.case_files import ENDINGS, MEDIA_TYPES, CaseFormat, config_for, write_cases
from demur.serve.web.review.case_import import ImportedAnnotation, counted, import_verdicts, people_of
from demur.serve.web.review.label_studio import InputKind, rows_of_export
from demur.serve.web.review.learning_file import check_writes_texts, write_learning
from demur.serve.web.review.review_wire import Label
from demur.serve.web.review.service import ReviewService
from demur.serve.web.review.site import Content, Name, Reviews, Site, Word, problems, reply
from demur.traffic.learning_rows import FORMS, LearningForm

CHUNK = 1 << 16


class ImportRow(BaseModel):
    """What became of one annotation."""

    task: int = Field(description="Its place in the file, from 0 on.")
    annotation: int = Field(description="Its place in the task.")
    became: Literal["taken", "known", "refused"] = Field(
        description="It counts now; it did before; or it could not be taken, and `why` says so."
    )
    why: str | None
    case: UUID | None
    person: str | None
    label: Label | None


class ImportView(BaseModel):
    taken: int
    known: int
    refused: int
    rows: list[ImportRow]


router = APIRouter(tags=["Files in and out"])


@router.get(
    "/v1/export",
    response_class=Response,
    responses={
        200: {
            "description": "The file. `X-Demur-Left-Out` counts the cases that are not in it: those whose input is no"
            " longer kept, which nobody could look at elsewhere, and of `pairs` and `training` all that give no row.",
            "content": {kind: {} for kind in MEDIA_TYPES.values()},
        },
        **problems(401, 403, 404, 422, 503),
    },
    summary="Cases of one model as a file",
)
def export(
    name: Name,
    site: Site,
    model: Word,
    format: Annotated[
        CaseFormat | LearningForm,
        Query(
            description="Tasks of Label Studio, or all that is known as CSV, Parquet or JSON lines. Of a task that"
            " writes texts also, as JSON lines, preference `pairs` and `training` conversations."
        ),
    ] = "label-studio",
    status: Annotated[Sequence[Status] | None, Query(description="Any of these; by default all.")] = None,
    with_predictions: Annotated[
        bool, Query(description="Label Studio: also what the model said, except of blind cases.")
    ] = False,
) -> Response:
    reviews = site.reviews
    task = _task_of(reviews, model)
    ids = reviews.ids(name, Filter(statuses=tuple(status) if status else None, model=model))
    if format in FORMS:
        check_writes_texts(model, task)
    file = tempfile.TemporaryFile()  # noqa: SIM115 - closed when it has been sent
    if format == "pairs" or format == "training":
        left_out = len(ids) - write_learning(site, name, model, format, ids, file)
        file_name, media_type = f"{model}-{format}.jsonl", MEDIA_TYPES["jsonl"]
    else:
        written = write_cases(reviews.dossiers(name, ids), file, format, task, with_predictions=with_predictions)
        left_out, file_name, media_type = written.left_out, f"{model}.{ENDINGS[format]}", MEDIA_TYPES[format]
    file.seek(0)
    headers = {
        "Cache-Control": "no-store",
        "Content-Disposition": f'attachment; filename="{file_name}"',
        "X-Demur-Left-Out": str(left_out),
    }
    return StreamingResponse(_chunks(file), media_type=media_type, headers=headers)


@router.get(
    "/v1/label-config",
    response_class=Response,
    responses={
        200: {"description": "XML for the project's labeling interface.", "content": {"application/xml": {}}},
        **problems(401, 403, 404, 422, 503),
    },
    summary="Label Studio's configuration for the cases of one model",
)
def labels(
    name: Name,
    reviews: Reviews,
    model: Word,
    input: Annotated[InputKind | None, Query(description="Needed as long as there is no case.")] = None,
) -> Response:
    reviews.check_leads(name)
    xml = config_for(reviews, model, _task_of(reviews, model), input)
    return Response(xml, headers={"Cache-Control": "no-store"}, media_type="application/xml")


@router.post(
    "/v1/import",
    response_model=ImportView,
    responses=problems(400, 401, 403, 408, 413, 422, 503),
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {"application/json": {"schema": {"type": "array", "items": {"type": "object"}}}},
        }
    },
    summary="Take in the verdicts of a JSON export of Label Studio; the same file twice is one",
)
def take_in(
    name: Name,
    reviews: Reviews,
    content: Content,
    person: Annotated[
        Sequence[str] | None,
        Query(description="Who is who, such as `7=ada`: a number or address there, a name here."),
    ] = None,
) -> Response:
    reviews.check_leads(name)
    rows = import_verdicts(reviews, rows_of_export(content), people=people_of(person or []))
    return reply({**counted(rows), "rows": [_row(row) for row in rows]})


def _task_of(reviews: ReviewService, model: str) -> TaskConfig:
    models = reviews.config.models
    if model not in models:
        raise UnknownModel(f"model: there is no model {model!r}; there are: {', '.join(models)}")
    return models[model].task


def _row(row: ImportedAnnotation) -> dict[str, Any]:
    return {field: getattr(row, field) for field in ImportRow.model_fields}


def _chunks(file: BinaryIO) -> Iterator[bytes]:
    with file:
        while chunk := file.read(CHUNK):
            yield chunk

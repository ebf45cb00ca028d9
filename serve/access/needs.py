"""What each route needs, in one table. What is not listed needs `admin`."""

import re
from collections.abc import Mapping

from demur.serve.config.access import Scope

OPEN = None
"""Anybody may."""

Needs = Mapping[str, Scope | None]

DOCUMENTS: Needs = {
    "GET /docs": OPEN,
    "GET /openapi.json": OPEN,
    "GET /docs/{name}": OPEN,
}
"""What the API is: the same as in the public repository."""

PEOPLE: Needs = {
    **DOCUMENTS,
    "GET /static/{version}/{name}": OPEN,
}
"""What the applications for people share."""

GATEWAY: Needs = {
    **PEOPLE,
    "GET /": OPEN,  # strangers are told of no model
    "GET /healthz": OPEN,  # strangers are told whether all is well, and nothing else
    "GET /healthz/{model}": OPEN,
    "POST /v1/predict": Scope.PREDICT,
    "POST /v1/predict/batch": Scope.PREDICT,
    "GET /v1/predictions/{id}": Scope.PREDICT,
    "POST /v1/predictions/{id}/outcome": Scope.PREDICT,
    "POST /v1/outcomes/batch": Scope.PREDICT,
    "DELETE /v1/predictions/{id}/payload": Scope.ADMIN,
    "POST /v1/chat/completions": Scope.PREDICT,
    "GET /v1/models": Scope.PREDICT,
    "GET /v1/models/{model}": Scope.PREDICT,
    "GET /v1/live": Scope.AUDIT,
    "GET /v1/artifacts/{model}": Scope.ADMIN,
    "GET /v1/artifacts/{model}/{artifact}": Scope.ADMIN,
    "GET /v1/artifacts/{model}/{artifact}/diff": Scope.ADMIN,
    "GET /v1/releases/{model}": Scope.ADMIN,
    "POST /v1/releases/{model}/promote": Scope.ADMIN,  # it changes what is answered
    "POST /v1/releases/{model}/rollback": Scope.ADMIN,
    "POST /v1/releases/{model}/shadow": Scope.ADMIN,
    "POST /v1/releases/{model}/canary": Scope.ADMIN,
    "GET /v1/releases/{model}/jobs": Scope.ADMIN,
    "POST /v1/releases/{model}/jobs": Scope.ADMIN,
    "GET /v1/jobs/{id}": Scope.ADMIN,
    "GET /v2": Scope.PREDICT,
    "GET /v2/health/live": OPEN,
    "GET /v2/health/ready": OPEN,
    "GET /v2/models": Scope.PREDICT,
    "GET /v2/models/{model}": Scope.PREDICT,
    "GET /v2/models/{model}/ready": Scope.PREDICT,
    "GET /v2/models/{model}/versions/{version}": Scope.PREDICT,
    "GET /v2/models/{model}/versions/{version}/ready": Scope.PREDICT,
    "POST /v2/models/{model}/infer": Scope.PREDICT,
    "POST /v2/models/{model}/versions/{version}/infer": Scope.PREDICT,
    "GET /try/": Scope.PREDICT,
    "POST /try/": Scope.PREDICT,
    "GET /live/": Scope.AUDIT,
    "GET /models/": Scope.AUDIT,
    "POST /models/{model}/promote": Scope.ADMIN,
    "POST /models/{model}/rollback": Scope.ADMIN,
    "POST /models/{model}/shadow": Scope.ADMIN,
    "POST /models/{model}/canary": Scope.ADMIN,
    "POST /models/{model}/replay": Scope.ADMIN,
}

REVIEW: Needs = {
    **PEOPLE,
    "GET /login": OPEN,
    "POST /login": OPEN,
    "POST /logout": OPEN,
    "GET /login/oidc": OPEN,
    "GET /login/oidc/callback": OPEN,
    "GET /metrics": Scope.AUDIT,
    "GET /": Scope.REVIEW,
    "GET /hello": Scope.REVIEW,
    "POST /hello": Scope.REVIEW,
    "POST /next": Scope.REVIEW,
    "POST /bulk": Scope.REVIEW,
    "GET /cases/{id}/similar": Scope.REVIEW,
    "GET /grid": Scope.REVIEW,
    "POST /grid": Scope.REVIEW,
    "POST /grid/answers": Scope.REVIEW,
    "POST /grid/undo": Scope.REVIEW,
    "POST /grid/release": Scope.REVIEW,
    "POST /v1/grid/keep": Scope.REVIEW,
    "GET /cases/{id}": Scope.REVIEW,
    "POST /cases/{id}/claim": Scope.REVIEW,
    "POST /cases/{id}/release": Scope.REVIEW,
    "POST /cases/{id}/skip": Scope.REVIEW,
    "POST /cases/{id}/undo": Scope.REVIEW,
    "GET /answers": Scope.REVIEW,
    "POST /cases/{id}/reopen": Scope.REVIEW,
    "POST /cases/{id}/withdraw": Scope.REVIEW,
    "POST /cases/{id}/answer": Scope.REVIEW,
    "POST /v1/in-place/{id}/answer": Scope.REVIEW,
    "POST /v1/in-place/ahead": Scope.REVIEW,
    "POST /v1/in-place/{id}/leave": Scope.REVIEW,
    "POST /v1/in-place/{id}/decide": Scope.REVIEW,
    "GET /desk": Scope.REVIEW,
    "POST /desk/{id}": Scope.REVIEW,
    "GET /overview": Scope.REVIEW,
    "GET /webhooks": Scope.REVIEW,
    "GET /access-log": Scope.ADMIN,  # it tells of colleagues
    "POST /webhooks/{id}/again": Scope.REVIEW,
    "GET /v1/me": Scope.REVIEW,
    "GET /v1/backlog": Scope.REVIEW,
    "GET /v1/progress": Scope.REVIEW,
    "GET /v1/shelves": Scope.REVIEW,
    "GET /v1/labels": Scope.REVIEW,
    "GET /v1/cases": Scope.REVIEW,
    "GET /v1/disputes": Scope.REVIEW,
    "POST /v1/cases/{id}/decide": Scope.REVIEW,
    "GET /v1/cases/{id}": Scope.REVIEW,
    "GET /v1/cases/{id}/events": Scope.REVIEW,
    "POST /v1/cases/next": Scope.REVIEW,
    "POST /v1/cases/bulk": Scope.REVIEW,
    "POST /v1/cases/{id}/claim": Scope.REVIEW,
    "POST /v1/cases/{id}/heartbeat": Scope.REVIEW,
    "POST /v1/cases/{id}/answer": Scope.REVIEW,
    "POST /v1/cases/{id}/undo": Scope.REVIEW,
    "POST /v1/cases/{id}/release": Scope.REVIEW,
    "POST /v1/cases/{id}/skip": Scope.REVIEW,
    "POST /v1/cases/{id}/reopen": Scope.REVIEW,
    "GET /v1/answers": Scope.REVIEW,
    "POST /v1/cases/{id}/withdraw": Scope.REVIEW,
    "GET /v1/overview": Scope.REVIEW,
    "GET /v1/webhooks": Scope.REVIEW,
    "POST /v1/webhooks/deliveries/{id}/again": Scope.REVIEW,
    "GET /v1/export": Scope.REVIEW,
    "GET /v1/label-config": Scope.REVIEW,
    "POST /v1/import": Scope.ADMIN,  # it speaks in the names of others
}

AUDIT: Needs = {
    **PEOPLE,
    "GET /metrics": Scope.AUDIT,
    "GET /": Scope.AUDIT,
    "GET /hello": Scope.AUDIT,
    "POST /hello": Scope.AUDIT,
    "POST /audits": Scope.AUDIT,
    "GET /reports/{id}": Scope.AUDIT,
    "GET /reports/{id}/board": Scope.AUDIT,
    "GET /reports/{id}/tables/{name}.csv": Scope.AUDIT,
    "GET /reports/{id}/figures/{name}.{kind}": Scope.AUDIT,
    "GET /reports/{id}/compare": Scope.AUDIT,
    "GET /reports/{id}/compare/{other}": Scope.AUDIT,
    "GET /control": Scope.AUDIT,
    "GET /monitors": Scope.AUDIT,
    "POST /monitors/alarms/{id}/undo": Scope.ADMIN,  # it changes what is answered
    "GET /reports/{id}/report.json": Scope.AUDIT,
    "GET /reports/{id}/report.html": Scope.AUDIT,
    "GET /reports/{id}/report.parquet": Scope.AUDIT,
    "GET /v1/reports": Scope.AUDIT,
    "GET /v1/reports/{id}": Scope.AUDIT,
    "GET /v1/reports/{id}/comparison": Scope.AUDIT,
    "GET /v1/audits": Scope.AUDIT,
    "GET /v1/audits/{id}": Scope.AUDIT,
    "POST /v1/audits": Scope.AUDIT,
    "GET /v1/controls": Scope.AUDIT,
    "GET /v1/monitors": Scope.AUDIT,
    "POST /v1/alarms/{id}/undo": Scope.ADMIN,
}


class Doors:
    """The needs of one application, found quickly."""

    def __init__(self, needs: Needs) -> None:
        self._exact: dict[tuple[str, str], Scope | None] = {}
        self._patterns: list[tuple[str, re.Pattern[str], Scope | None]] = []
        for route, scope in needs.items():
            method, _, path = route.partition(" ")
            if "{" in path:
                pattern = re.sub(r"\\{[a-z_]+\\}", "[^/]+", re.escape(path))
                self._patterns.append((method, re.compile(pattern), scope))
            else:
                self._exact[method, path] = scope

    def needs(self, method: str, path: str) -> Scope | None:
        """The scope that a request needs; `OPEN` where it needs none."""
        if method == "HEAD":
            method = "GET"
        if (method, path) in self._exact:
            return self._exact[method, path]
        for of, pattern, scope in self._patterns:
            if of == method and pattern.fullmatch(path):
                return scope
        return Scope.ADMIN

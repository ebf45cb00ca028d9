"""`demur keys`: who may ask for predictions, review and audit."""

import getpass
from collections.abc import Sequence
from contextlib import ExitStack
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Column, Table

from demur.serve.access.names import LONGEST_NAME, as_name
from demur.serve.access.rates import Rate
from demur.serve.commands.terminal import ConfigOption, config_path, now, opened_database, out
from demur.serve.config.access import Scope
from demur.serve.config.file import BadConfig, Config
from demur.serve.configuration import load_config

if TYPE_CHECKING:
    from demur.serve.access.keys import Rates

keys = typer.Typer(no_args_is_help=True, help="Who may ask for predictions, review and audit: make, list, revoke keys.")

NameArgument = Annotated[str, typer.Argument(help="Who or what it is for; stands beside what is done with it.")]
ByOption = Annotated[str | None, typer.Option(help="Who does this; by default whoever is logged in.")]
ScopeOption = Annotated[
    list[Scope] | None,
    typer.Option(
        "--scope",
        help="`predict`: ask, and tell outcomes; `review`: work on cases; `audit`: read reports, monitors and metrics;"
        " `admin`: everything. Repeat it for several.",
    ),
]


@keys.command("make")
def make(
    name: NameArgument,
    scope: ScopeOption = None,
    model: Annotated[
        list[str] | None,
        typer.Option(
            help="Only this model; `MODEL=RATE` also limits its predictions, as with --predictions. Repeat it for"
            " several."
        ),
    ] = None,
    requests: Annotated[
        str | None, typer.Option(help="Requests per second in each gateway, as RATE or RATE:BURST, such as 20:50.")
    ] = None,
    predictions: Annotated[
        str | None, typer.Option(help="Predictions per second in each gateway, in the same form; a batch counts each.")
    ] = None,
    expires: Annotated[
        str | None, typer.Option(help="After so long it ends: 90d, 12h, 30m; by default it does not.")
    ] = None,
    by: ByOption = None,
    config: ConfigOption = None,
) -> None:
    """Make a key, and print it. It is shown this once; only a hash of it is kept."""
    from demur.serve.access import keys as kept

    settings = load_config(config_path(config))
    who, scopes = _name(name), _scopes(scope)
    models, rates = _limits(settings, model, requests, predictions)
    if models and scopes != [Scope.PREDICT]:
        raise BadConfig("--model is about predictions; what people may review is in `review.people`: make two keys")
    ends = _end(expires)
    with ExitStack() as opened:
        database = opened_database(settings, opened)
        with database.transaction() as connection:
            token = kept.make_key(
                connection, who, scopes, by=by or getpass.getuser(), models=models, rates=rates, expires_at=ends
            )
    typer.echo(token.text)  # alone on standard output, for scripts
    typer.echo(
        f"this is the key of {who}, which may {', '.join(scopes)}; keep it now, it is not shown again."
        f" `demur keys revoke {token.id}` ends it within a second or two"
        f"{'' if settings.access else '; nobody is asked for it before `access` is configured'}",
        err=True,
    )


@keys.command("list")
def show(
    every: Annotated[bool, typer.Option("--all", help="Also those that are revoked or expired.")] = False,
    config: ConfigOption = None,
) -> None:
    """Show the keys that are in force, the latest first. Their secrets are nowhere."""
    from demur.serve.access.keys import listed

    settings = load_config(config_path(config))
    with ExitStack() as opened:
        database = opened_database(settings, opened)
        with database.transaction() as connection:
            found = listed(connection)
    at = now()
    shown = [key for key in found if every or key.state(at) == "in force"]
    if not shown:
        out.print("there is no key yet" if not found else "no key is in force; --all shows the others")
        return
    table = Table(Column("key", no_wrap=True), "name", "may", "models", "at most", "made (UTC)", "ends (UTC)", "state")
    for key in shown:
        state = key.state(at)
        table.add_row(
            key.id,
            key.name,
            ", ".join(key.scopes),
            "all" if key.models is None else ", ".join(key.models),
            rates_in_words(key.rates),
            f"{key.created_at:%Y-%m-%d %H:%M} by {key.created_by}",
            f"{key.expires_at:%Y-%m-%d %H:%M}" if key.expires_at else "–",
            f"revoked {key.revoked_at:%Y-%m-%d %H:%M} by {key.revoked_by or ''}" if key.revoked_at else state,
        )
    out.print(table)


@keys.command("revoke")
def revoke(
    key: Annotated[str, typer.Argument(help="Its id, as `demur keys list` shows it: the middle part of the key.")],
    by: ByOption = None,
    config: ConfigOption = None,
) -> None:
    """Revoke a key: within a second or two nobody gets in with it, and who has logged in with it is logged out."""
    from demur.serve.access.keys import revoke_key

    settings = load_config(config_path(config))
    with ExitStack() as opened:
        database = opened_database(settings, opened)
        with database.transaction() as connection:
            revoked = revoke_key(connection, key, by=by or getpass.getuser())
    out.print(f"key {revoked.id} of {revoked.name} was revoked at {revoked.revoked_at:%Y-%m-%d %H:%M:%S} UTC")


@keys.command("login")
def login(
    name: NameArgument,
    scope: ScopeOption = None,
    hours: Annotated[float, typer.Option(min=0.01, max=24 * 31, help="For how long the link is good.")] = 24,
    by: ByOption = None,
    config: ConfigOption = None,
) -> None:
    """Make a link with which a reviewer or an auditor logs in once, and print it. Only a hash of it is kept."""
    from demur.serve.access.sessions import make_code

    settings = load_config(config_path(config))
    who, scopes = _name(name), _scopes(scope)
    if settings.access is None or settings.access.mode == "open":
        raise BadConfig("nobody needs a link: the service asks nobody who they are; write `access: {mode: keys}` first")
    ends = now() + timedelta(hours=hours)
    with ExitStack() as opened:
        database = opened_database(settings, opened)
        with database.transaction() as connection:
            token = make_code(connection, who, scopes, by=by or getpass.getuser(), expires_at=ends)
    address = settings.access.url or f"http://{settings.http.host}:{settings.http.port}"
    typer.echo(f"{address}/review/login#{token.text}")
    typer.echo(
        f"with this {who} logs in once, by {ends:%Y-%m-%d %H:%M} UTC, and may {', '.join(scopes)}; hand it over where"
        " nobody else reads it",
        err=True,
    )


@keys.command("sessions")
def show_sessions(config: ConfigOption = None) -> None:
    """Show who is logged in."""
    from demur.serve.access.sessions import open_sessions

    settings = load_config(config_path(config))
    with ExitStack() as opened:
        database = opened_database(settings, opened)
        with database.transaction() as connection:
            found = [session for session, _ in open_sessions(connection)]
    if not found:
        out.print("nobody is logged in")
        return
    table = Table("name", "may", "logged in (UTC)", "by", "seen (UTC)", "ends (UTC)")
    for session in found:
        by = f"key {session.person.key_id}" if session.person.key_id else session.began_by
        times = (session.began_at, session.seen_at, session.expires_at)
        began, seen, ends = (f"{at:%Y-%m-%d %H:%M}" for at in times)
        table.add_row(session.person.name, ", ".join(session.person.scopes), began, by, seen, ends)
    out.print(table)


@keys.command("logout")
def log_out(name: Annotated[str, typer.Argument(help="Who is logged out.")], config: ConfigOption = None) -> None:
    """Log somebody out everywhere, and end the links that they have not used."""
    from demur.serve.access import sessions

    settings = load_config(config_path(config))
    with ExitStack() as opened:
        database = opened_database(settings, opened)
        with database.transaction() as connection:
            ended, unused = sessions.log_out(connection, _name(name))
    out.print(f"{ended:,} sessions and {unused:,} unused links of {name} are ended; keys stay as they are")


def rates_in_words(rates: "Rates") -> str:
    said = [(rates.requests, "requests"), (rates.predictions, "predictions")]
    said += [(rate, f"predictions of {model}") for model, rate in rates.models.items()]
    return (
        "\n".join(f"{rate.per_second:g} {what}/s, {rate.burst:g} at once" for rate, what in said if rate is not None)
        or "–"
    )


def rate_of(place: str, text: str) -> Rate:
    """A rate as it is written: `20` per second, or `20:50` with so many at once."""
    first, colon, second = text.partition(":")
    try:
        per_second = float(first)
        burst = float(second) if colon else max(1.0, per_second)
    except ValueError:
        per_second = burst = -1.0
    if not (0 < per_second < 1e9 and 1 <= burst < 1e9):
        raise BadConfig(f"{place}: {text!r} is no rate; write 20 for 20 per second, or 20:50 for 50 of them at once")
    return Rate(per_second=per_second, burst=burst)


def _name(told: str) -> str:
    name = as_name(told)
    if name is None:
        raise BadConfig(f"a name has 1 to {LONGEST_NAME} characters, all of them printable")
    return name


def _scopes(told: Sequence[Scope] | None) -> list[Scope]:
    if not told:
        raise BadConfig(f"say what it may do: --scope with one of: {', '.join(Scope)}")
    return list(dict.fromkeys(told))


def _end(told: str | None) -> datetime | None:
    if told is None:
        return None
    from demur.serve.commands.terminal import moment

    ago = moment(told)
    assert ago is not None
    if told[-1:] not in ("d", "h", "m") or ago >= now():
        raise BadConfig(f"--expires: {told!r} is no time to come like 90d, 12h or 30m")
    return now() + (now() - ago)


def _limits(
    settings: Config, models: Sequence[str] | None, requests: str | None, predictions: str | None
) -> "tuple[list[str] | None, Rates]":
    from demur.serve.access.keys import Rates

    names, of_models = [], {}
    for told in models or ():
        name, equals, rate = told.partition("=")
        settings.model(name)
        names.append(name)
        if equals:
            of_models[name] = rate_of("--model", rate)
    return names or None, Rates(
        requests=rate_of("--requests", requests) if requests else None,
        predictions=rate_of("--predictions", predictions) if predictions else None,
        models=of_models,
    )

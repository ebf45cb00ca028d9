"""`demur rank`."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from demur.serve.commands.file_form import Encoding, InputColumn, LabelColumn, file_form
from demur.serve.commands.terminal import ConfigOption, config_path, out, progress_bar
from demur.serve.configuration import load_config


def rank(
    file: Annotated[Path, typer.Argument(help="A .jsonl, .csv or .parquet with `input` and, where known, `label`.")],
    model: Annotated[str, typer.Option(help="A language model with a binary task, by its name in the configuration.")],
    schedule: Annotated[
        Literal["random", "graph", "swiss"],
        typer.Option(help="Who meets whom: anybody, whoever is furthest apart in what was played, or near equals."),
    ] = "random",
    rounds: Annotated[int, typer.Option(min=1, help="Most rounds, those of earlier sittings included.")] = 30,
    comparisons: Annotated[int | None, typer.Option(min=1, help="Most comparisons, likewise.")] = None,
    settled: Annotated[
        float,
        typer.Option(
            min=0.5,
            max=1.0,
            help="Stop when the mean ratings of the last five rounds and of the five before correlate as much"
            " (Spearman); 1 plays on until the budget ends.",
        ),
    ] = 0.97,
    cut: Annotated[Literal["f1", "youden"], typer.Option(help="What the best cut is best at.")] = "f1",
    seed: Annotated[int, typer.Option(min=0, help="Seed of schedule and sides.")] = 0,
    to: Annotated[
        Path | None,
        typer.Option(
            "--out",
            help="Folder for ratings, picture and journal; by default where host.tournament looks, else rank/MODEL in"
            " `data`.",
        ),
    ] = None,
    anew: Annotated[bool, typer.Option("--anew", help="Throw away what was compared before.")] = False,
    input_column: InputColumn = None,
    label_column: LabelColumn = None,
    encoding: Encoding = None,
    config: ConfigOption = None,
) -> None:
    """Rank inputs instead of asking about each by itself: a model compares them two at a time, and Elo ratings come of
    it. For models that give no log-probabilities, and for what is easier to say of two than of one.

    Every round is kept, so the same command goes on after a break, or with a larger budget. Where labels are known it
    says how well the ratings part them."""
    settings = load_config(config_path(config))
    from demur.serve.commands.rank.ranking import folder_of, rank_file
    from demur.serve.commands.rank.report import tables
    from demur.serve.commands.rank.rounds import Budget, TournamentPlan

    with progress_bar() as bar:
        turns = bar.add_task("rounds", total=rounds)
        matches = bar.add_task("comparisons", total=None)

        def told(number: int, done: int) -> None:
            bar.update(turns, completed=number - 1)
            bar.update(matches, completed=done)

        found = rank_file(
            settings,
            model,
            file,
            folder=to or folder_of(settings, model),
            plan=TournamentPlan(schedule=schedule, seed=seed),
            budget=Budget(rounds=rounds, comparisons=comparisons, settled=settled),
            criterion=cut,
            anew=anew,
            form=file_form(settings.model(model), input_column, label_column, encoding),
            told=told,
        )
        bar.update(turns, completed=found.ratings.rounds)
    for table in tables(found.ratings):
        out.print(table)
    for sentence in found.remarks:
        out.print(sentence)
    out.print(f"ratings: {found.path}\npicture: {found.picture}")
    out.print(
        f"to rate new inputs by these: set models.{model}.host.tournament to {{ratings: {found.path}}}, if it is"
        f" not yet, then `demur fit {model}`"
    )

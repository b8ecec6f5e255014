"""`metrobench profiles`: the model profiles, what a session of each takes and how many fit on a GPU."""

from __future__ import annotations

import click

from metrobench.cli import options
from metrobench.errors import UsageError


class _Group(click.Group):
    """Says what to type instead where somebody names a profile without `show`."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and self.get_command(ctx, args[0]) is None:
            raise UsageError(f"profiles has no command {args[0]!r}", "metrobench profiles show NAME prints one profile")
        return super().resolve_command(ctx, args)


@click.group(cls=_Group, invoke_without_command=True)
@options.as_json
@options.debug
@click.pass_context
def profiles(ctx: click.Context, as_json: bool) -> None:
    """The model profiles: rates, KV per session-minute, sessions per GPU.

    A path to your own .toml profile works wherever a name does.
    """
    if ctx.invoked_subcommand is not None:
        return
    from metrobench.cli.output import say, say_json
    from metrobench.profiles import load_profile, profile_names
    from metrobench.report.profiles import row, table

    rows = [row(load_profile(name)) for name in profile_names()]
    if as_json:
        say_json(rows)
    else:
        say(table(rows))


@profiles.command(short_help="One profile, and the source of each figure.")
@click.argument("name")
@click.option("--gpu", "gpus", multiple=True, metavar="NAME", help="Only this GPU, for example H100; repeatable.")
@click.option("--toml", "as_toml", is_flag=True, help="Print its file, a starting point for one of your own.")
@options.as_json
@options.debug
def show(name: str, gpus: tuple[str, ...], as_toml: bool, as_json: bool) -> None:
    """One profile: shape, rates, memory of a session, sessions per GPU, and the source of each figure.

    NAME is that of a shipped profile, or the path of a .toml file.
    """
    from metrobench.cli.output import say, say_json
    from metrobench.gpus import Gpu, find_gpu, load_gpus
    from metrobench.profiles import load_profile, profile_path
    from metrobench.report import profiles as report

    if as_toml and (as_json or gpus):
        raise UsageError("--toml prints the file as it is", "leave out --json and --gpu")
    profile = load_profile(name)
    if as_toml:
        say(profile_path(name).read_text("utf-8").expandtabs().rstrip("\n"))
        return
    chosen = [find_gpu(gpu) for gpu in gpus] or load_gpus()
    own = profile.reference_gpu
    if not gpus and all(gpu.name != own.name for gpu in chosen):
        chosen.append(Gpu(own.name, own.memory_bytes, "the profile"))
    found = report.sizes(profile, chosen)
    if as_json:
        say_json({"profile": profile, "sizes": found})
    else:
        say(report.show(profile, found))

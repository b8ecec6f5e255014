"""Before somebody else's server is loaded: say how much, and ask."""

from __future__ import annotations

import ipaddress
import socket
import sys
from urllib.parse import urlsplit

import click

from metrobench.errors import UnreachableError, UsageError
from metrobench.report.layout import wrap
from metrobench.units import seconds


def ask(url: str, sessions: int, duration: float, yes: bool) -> None:
    """Ask before `sessions` sessions stream to `url` for about `duration` seconds; a loopback address needs no leave.

    Raises UsageError where the answer is no, or nobody can be asked; UnreachableError where the host has no address.
    """
    if yes or is_loopback(url):
        return
    load = f"up to {sessions} live session{'s' * (sessions > 1)} for about {seconds(duration)}"
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UsageError(
            f"{_host(url)} is not this machine: it would get {load}", "give --yes if you may load that server so much"
        )
    click.echo("\n".join(wrap(f"{_host(url)} is not this machine: it will get {load}.")), err=True)
    if not click.confirm("Go on?", err=True):
        raise UsageError("nothing was sent")


def is_loopback(url: str) -> bool:
    """True where every address of the URL's host is this machine's loopback. Raises UnreachableError."""
    host = _host(url)
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UnreachableError(f"the host {host} cannot be found: {reason}", "check the address") from error
    return all(ipaddress.ip_address(str(address[0]).partition("%")[0]).is_loopback for *_, address in found)


def _host(url: str) -> str:
    return urlsplit(url).hostname or url

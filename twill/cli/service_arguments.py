"""The grammar of the commands of the store and the service: `twill store | jobs | serve | work`."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from twill.cli import jobs, serve, store
from twill.cli.shared_arguments import filters, store_place
from twill.cli.subcommands import new
from twill.cli.values import natural, positive, seconds

if TYPE_CHECKING:
    from twill.cli.subcommands import Commands

STATES = ("queued", "running", "done", "failed", "cancelled")  # as twill.store.api has them
LEVELS = ("debug", "info", "warning", "error")


def add_serve(commands: Commands) -> None:
    """`twill serve`."""
    one = new(commands, "serve", "schedules over HTTP: jobs, store and pages (docs/service.md)")
    one.add_argument("--host", default="127.0.0.1", help="the address to listen on (default: this machine only)")
    one.add_argument("--port", metavar="N", type=natural, default=8377, help="default: 8377; 0: any that is free")
    text = "where schedules and jobs are kept: a directory (default: in your home), or postgresql://..."
    one.add_argument("--store", metavar="PLACE", help=text)
    databases(one)
    one.add_argument(
        "--workers", metavar="N", type=natural, help="solves at a time (default: 1, and 0 beside a database)"
    )
    one.add_argument("--token-file", metavar="FILE", help="who may do what; without one, only this machine may connect")
    one.add_argument("--add-token", metavar="NAME:SCOPES", help="add a token to --token-file, print it, and leave")
    one.add_argument("--days", metavar="N", type=positive, help="the days for which an added token counts (all)")
    text = "share=N, priority=N or jobs=N of an added token (docs/service.md); repeatable"
    one.add_argument("--grant", metavar="NAME=N", action="append", default=[], help=text)
    one.add_argument("--waiting", metavar="N", type=positive, default=1000, help="jobs that may wait (default: 1000)")
    one.add_argument("--rate", metavar="N", type=natural, default=200, help="requests a second of a client; 0: any")
    one.add_argument("--time-limit", metavar="S", type=seconds, default=300.0, help="for one solve (default: 300)")
    one.add_argument("--memory-limit", metavar="MB", type=positive, default=4096, help="of one solve (default: 4096)")
    one.add_argument("--connections", metavar="N", type=positive, default=1000, help="open at once (default: 1000)")
    text = "believe what this proxy says of its clients (X-Forwarded-For); repeatable (default: none)"
    one.add_argument("--proxy", metavar="ADDRESS", action="append", default=[], help=text)
    text = "the header in which such a proxy says who looks at a page, as X-Forwarded-User (default: none)"
    one.add_argument("--user-header", metavar="NAME", default="", help=text)
    one.add_argument("--user-scopes", metavar="SCOPES", default="solve", help="of such users (default: solve)")
    one.add_argument("--tls-certificate", metavar="FILE", help="speak TLS, with this certificate chain")
    one.add_argument("--tls-key", metavar="FILE", help="and its private key")
    one.add_argument("--log-level", choices=LEVELS, default="info", help="default: info")
    one.set_defaults(command=serve.serve)


def add_work(commands: Commands) -> None:
    """`twill work`."""
    one = new(commands, "work", "solve what is queued in a database (docs/operating.md)")
    one.add_argument("--store", metavar="URL", required=True, help="where schedules are kept: postgresql://...")
    databases(one)
    one.add_argument("--workers", metavar="N", type=positive, default=1, help="solves at a time (default: 1)")
    one.add_argument("--time-limit", metavar="S", type=seconds, default=300.0, help="for one solve (default: 300)")
    one.add_argument("--memory-limit", metavar="MB", type=positive, default=4096, help="of one solve (default: 4096)")
    one.add_argument("--log-level", choices=LEVELS, default="info", help="default: info")
    one.set_defaults(command=serve.work)


def databases(one: argparse.ArgumentParser) -> None:
    """Where jobs and large artifacts are, if not where schedules are."""
    one.add_argument("--queue", metavar="URL", default="", help="the database of the jobs (default: that of --store)")
    text = "where large artifacts are: s3://BUCKET/PREFIX or file:///DIRECTORY (default: in the database)"
    one.add_argument("--objects", metavar="URL", default="", help=text)


def add_stored(commands: Commands) -> None:
    """`twill store ls | show | rm | export | import | keys | gc | verify`."""
    group = new(commands, "store", "the schedules that are stored")
    actions = group.add_subparsers(title="actions", metavar="ACTION", required=True)
    one = new(actions, "ls", "stored schedules, newest first")
    filters(one)
    one.add_argument("--limit", metavar="N", type=positive, default=100, help="at most N of them (default 100)")
    one.add_argument("--quarantine", action="store_true", help="what is not believed, and why")
    one.add_argument("--json", action="store_true", help="the list as a document")
    one.set_defaults(command=store.ls)
    one = new(actions, "show", "one stored schedule")
    one.add_argument("key", metavar="KEY", help="a key, or its beginning")
    one.add_argument("--json", action="store_true", help="the entry as a document")
    one.set_defaults(command=store.show)
    one = new(actions, "rm", "remove stored schedules and what is kept beside them")
    one.add_argument("keys", metavar="KEY", nargs="+", help="a key, or its beginning")
    one.set_defaults(command=store.remove)
    one = new(actions, "export", "write stored schedules into one file")
    one.add_argument("file", metavar="FILE")
    one.add_argument("keys", metavar="KEY", nargs="*", help="only these keys (default: all)")
    filters(one)
    one.set_defaults(command=store.export)
    one = new(actions, "import", "keep what is good in a file that was exported")
    one.add_argument("file", metavar="FILE")
    one.set_defaults(command=store.import_archive)
    one = new(actions, "keys", "the keys that sign artifacts that run, and whose signatures are trusted")
    one.add_argument("--new", action="store_true", help="make another, which signs from now on")
    one.set_defaults(command=store.keys)
    one = new(actions, "gc", "remove what was used least recently, and the quarantine")
    one.add_argument("--max-bytes", metavar="N", type=natural, help="until at most N bytes are left (default: 1 GiB)")
    one.add_argument("--older-than", metavar="DAYS", type=seconds, help="and what was not used for so many days")
    one.set_defaults(command=store.gc)
    one = new(actions, "verify", "check every stored schedule and artifact")
    one.set_defaults(command=store.verify)
    for one in actions.choices.values():
        store_place(one)


def add_service_jobs(commands: Commands) -> None:
    """`twill jobs list | cancel | retry`."""
    group = new(commands, "jobs", "the jobs of a service")
    actions = group.add_subparsers(title="actions", metavar="ACTION", required=True)
    one = new(actions, "list", "the last jobs, newest first")
    one.add_argument("--state", choices=STATES, help="only those")
    one.add_argument(
        "--limit", metavar="N", type=positive, default=50, help="at most N of them (default 50, at most 200)"
    )
    one.add_argument("--json", action="store_true", help="the list as a document")
    one.set_defaults(command=jobs.ls)
    one = new(actions, "cancel", "end jobs")
    one.add_argument("jobs", metavar="JOB", nargs="+", help="as in the list")
    one.set_defaults(command=jobs.cancel)
    one = new(actions, "retry", "submit again what failed or was cancelled")
    one.add_argument("jobs", metavar="JOB", nargs="+", help="as in the list")
    one.set_defaults(command=jobs.retry)
    for one in actions.choices.values():
        one.add_argument("--server", metavar="URL", help="the service (default: TWILL_SERVER)")

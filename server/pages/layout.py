"""What every page has in common: head, navigation, style, and a policy that lets nothing else in."""

from __future__ import annotations

import base64
import hashlib
import importlib.resources
from collections.abc import Iterable
from html import escape

from fastapi import Response

from twill.show.html import resource
from twill.show.markup import element, text

NAVIGATION = (("/", "Queue"), ("/schedules", "Schedules"), ("/submit", "Submit"))


def page(
    title: str, content: str, *, status: int = 200, scripts: Iterable[str] = (), head: str = "", tail: str = ""
) -> Response:
    """A page as an answer. scripts: run at its end. head, tail: more of the head, and after the main part."""
    style = resource("page.css") + file("service.css")
    heads = (
        '<meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<link rel="icon" href="data:,">' + head + element("title", text(f"{title} - Twill")) + element("style", style)
    )
    run = list(scripts)
    body = navigation() + element("main", content) + tail + "".join(element("script", script) for script in run)
    html = f'<!doctype html>\n<html lang="en"><head>{heads}</head><body>{body}</body></html>\n'
    headers = {"Content-Security-Policy": policy(style, run), "Cache-Control": "no-store"}
    return Response(html, status, headers, "text/html; charset=utf-8")


def navigation() -> str:
    """Links to the pages that begin something."""
    return element("nav", element("b", "Twill") + "".join(link(path, name) for path, name in NAVIGATION))


def link(path: str, words: object) -> str:
    """A link."""
    return element("a", text(words), {"href": path})


def policy(style: str, scripts: Iterable[str]) -> str:
    """A policy that lets this page's own style and scripts run, reach this service, and nothing else.

    Drawings size their parts by style attributes, which run nothing.
    """
    run = " ".join(digest(script) for script in scripts) or "'none'"
    return (
        f"default-src 'none'; script-src {run}; style-src {digest(style)}; style-src-elem {digest(style)}; "
        "style-src-attr 'unsafe-inline'; img-src data:; connect-src 'self'; form-action 'self'; base-uri 'none'; "
        "frame-ancestors 'none'"
    )


def digest(source: str) -> str:
    """What a policy calls an inline element by."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(source.encode()).digest()).decode()}'"


def file(name: str) -> str:
    """A file of this package."""
    return importlib.resources.files(__package__).joinpath(name).read_text(encoding="utf-8")


def trouble(message: str, hint: str) -> str:
    """What went wrong, on a page."""
    return element("div", element("b", text(message)) + element("p", text(hint)), {"class": "trouble", "role": "alert"})


def field(label: str, control: str, note: str = "") -> str:
    """A labelled control of a form; `control` is markup."""
    return element("label", element("span", text(label)) + control + (element("small", text(note)) if note else ""))


def choice(name: str, options: Iterable[tuple[str, str]], chosen: str = "") -> str:
    """A list to choose from: values and their words."""
    items = (
        f'<option value="{escape(value)}"{" selected" if value == chosen else ""}>{text(words)}</option>'
        for value, words in options
    )
    return element("select", "".join(items), {"name": name})


def blank(name: str, value: str = "", **more: str) -> str:
    """A one-line input."""
    words = "".join(f' {key}="{escape(said)}"' for key, said in more.items())
    return f'<input name="{name}" value="{escape(value)}"{words}>'

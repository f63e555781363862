"""The HTTP schedule service, installed as `twill.server` (docs/service.md).

It takes dependence graphs (never Python), solves each once in a process of its own, keeps the
schedules, and shows them. A request passes `middleware`, `access` and `routes` or `pages`; `service`
is what they work with; `queue` and `twill.store.interface` are what it stands on. Only `twill serve`
imports this package, and only this package needs FastAPI.
"""

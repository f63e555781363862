"""Every error is found in `twill.exc`, under a name of its own, whatever file defines it."""

from __future__ import annotations

import importlib
import pkgutil

from twill import exc


def test_every_error_of_every_file_is_an_attribute_of_the_room() -> None:
    names: dict[str, str] = {}
    for module in pkgutil.iter_modules(exc.__path__, "twill.exc."):
        for name, found in vars(importlib.import_module(module.name)).items():
            if isinstance(found, type) and issubclass(found, exc.TwillError) and found.__module__ == module.name:
                assert getattr(exc, name) is found
                assert names.setdefault(name, module.name) == module.name
    assert len(names) > 100

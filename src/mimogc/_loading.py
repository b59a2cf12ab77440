"""Objects by reference: ``package.module:NAME``."""

import importlib
import os
import sys
from typing import Any


def load_object(what: str, reference: str) -> Any:
    """The object that ``module:NAME`` names, or a ValueError that says why not; a module may lie in the current folder.

    Args:
        what: the name of the argument, for the message.
        reference: of the object.
    """
    module, _, name = reference.partition(":")
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    try:
        found = importlib.import_module(module)
    except (Exception, SystemExit) as error:  # whatever the module does while it is imported
        raise ValueError(
            f"{what}: expected a module that can be imported, got {reference!r} ({type(error).__name__}: {error})"
        ) from error
    if not hasattr(found, name):
        raise ValueError(f"{what}: expected a name that {module!r} has, got {reference!r}")
    return getattr(found, name)

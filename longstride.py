"""Entry point of the ``longstride`` command.

Our packages have plain names (``agent``, ``memory``, ``tools``, ``runners``). A host project with a ``tools/``
folder of its own must still be able to run the command, even with ``PYTHONPATH=.``; so the folder this file lies
in goes first.
"""

from __future__ import annotations

import sys
from pathlib import Path


def main() -> None:
    """Run the command line."""
    home = str(Path(__file__).resolve().parent)
    sys.path[:] = [home, *(entry for entry in sys.path if entry != home)]
    try:
        from runners.cli.app import run_command

        run_command()
    except RuntimeError as fault:
        # Python 3.11 turns a Ctrl-C in the middle of a class body into this
        if not isinstance(fault.__cause__, KeyboardInterrupt):
            raise
        sys.exit(130)
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()

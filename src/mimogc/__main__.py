"""The command ``mimogc``, also as ``python -m mimogc``: the command line, where what it needs is installed."""

import sys


def main() -> None:
    """Run the command line; without the packages of ``mimogc[experiments]`` say so in a line."""
    try:
        from mimogc.cli import main as command_line
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("mimogc"):
            raise
        sys.exit(f'mimogc: the command needs {error.name}; install it with: pip install "mimogc[experiments]"')
    command_line()


if __name__ == "__main__":
    main()

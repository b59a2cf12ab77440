"""``python -m mimogc`` is the command ``mimogc``."""

from mimogc.cli import main

main()

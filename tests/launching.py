"""How these tests start several ranks."""

import sys


def torchrun(ranks: int, restarts: int = 0) -> list[str]:
    return [
        *(sys.executable, "-m", "torch.distributed.run", "--standalone"),
        *("--nproc-per-node", str(ranks), "--max-restarts", str(restarts)),
    ]

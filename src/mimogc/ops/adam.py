"""A step of Adam with clipped gradients on all weights of a model, which are one vector."""

import ctypes
from collections.abc import Sequence

import torch
from torch import Tensor

from mimogc.ops import native

BETAS, EPS = (0.9, 0.999), 1e-8


class Adam:
    """Weights as one vector, and the running means of their gradients and of the squares.

    Args:
        vector: ``[n]`` all weights, changed in place.
        sizes: of the tensors that are its parts, in their order.
    """

    def __init__(self, vector: Tensor, sizes: Sequence[int]) -> None:
        if vector.shape != (sum(sizes),) or not vector.is_contiguous():
            raise ValueError(f"vector: expected {sum(sizes)} values in a row, got shape {list(vector.shape)}")
        self.vector = vector
        self.mean, self.square = torch.zeros_like(vector), torch.zeros_like(vector)
        self.steps = torch.zeros((), device=vector.device)
        self._sizes = (ctypes.c_int64 * len(sizes))(*sizes)
        self._places = (ctypes.c_void_p * len(sizes))()

    def step(self, gradients: Sequence[Tensor | None], lr: float, clip: float) -> None:
        """Follow the gradients, scaled to a norm of at most `clip`; None is a gradient of zero."""
        for gradient, size in zip(gradients, self._sizes, strict=True):
            if gradient is not None and (gradient.numel() != size or gradient.dtype != self.vector.dtype):
                raise ValueError(
                    f"gradients: expected {size} values of {self.vector.dtype}, "
                    f"got {gradient.numel()} of {gradient.dtype}"
                )
        self.steps += 1
        vector = self.vector
        if native.available(vector):
            held = [gradient if gradient is None else gradient.contiguous() for gradient in gradients]
            self._places[:] = [native.pointer(gradient) for gradient in held]
            native.function("adam", vector.dtype)(
                len(held), self._sizes, self._places, clip, lr, *BETAS, EPS, int(self.steps), vector.data_ptr(),
                self.mean.data_ptr(), self.square.data_ptr(), torch.get_num_threads(),
            )  # fmt: skip
            return
        parts = zip(gradients, self._sizes, strict=True)
        whole = torch.cat(
            [vector.new_zeros(size) if part is None else part.flatten() for part, size in parts]
        )
        whole.mul_((clip / (torch.linalg.vector_norm(whole) + 1e-6)).clamp_(max=1.0))
        # What torch.optim.AdamW(fused=True) calls in the end, without the way there.
        torch._fused_adamw_(
            [vector], [whole], [self.mean], [self.square], [], [self.steps], lr=lr, beta1=BETAS[0], beta2=BETAS[1],
            weight_decay=0.0, eps=EPS, amsgrad=False, maximize=False,
        )  # fmt: skip

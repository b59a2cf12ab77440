"""What every kernel begins with: the rows of a program and their edges; tanh; and the last step for long rows.

A program takes some *items*: the first are the rows of a graph, in one of its two orders; behind them come the parts of
rows with more than `split` edges. Such a row is left out as a whole, its parts write partial sums, and `add_parts` adds
these up, in their order.
"""

import triton
import triton.language as tl


@triton.jit
def rows_of(ptr, parts, num_rows, num_parts, split, BR: tl.constexpr):
    """Of each of a program's BR items: row, first and last edge, whether it is a whole row, a part, and which."""
    item = tl.program_id(0) * BR + tl.arange(0, BR)
    whole = item < num_rows
    part = item - num_rows
    is_part = (part >= 0) & (part < num_parts)
    first = tl.load(ptr + item, mask=whole, other=0)
    last = tl.load(ptr + item + 1, mask=whole, other=0)
    whole = whole & (last - first <= split)
    place = parts + part * 4
    row = tl.where(is_part, tl.load(place, mask=is_part, other=0), item)
    first = tl.where(is_part, tl.load(place + 1, mask=is_part, other=0), first)
    last = tl.where(is_part, tl.load(place + 2, mask=is_part, other=0), tl.where(whole, last, first))
    is_part = is_part & (last > first)  # there may be more places for parts than parts
    return row.to(tl.int64), first, last, whole, is_part, part.to(tl.int64)


@triton.jit
def tanh(x):
    """By exp, and near zero by a quotient of polynomials (Padé), since 1 − exp(−2x) has no digits there."""
    size = tl.abs(x)
    e = tl.exp(-2.0 * size)
    far = (1.0 - e) / (1.0 + e)
    q = tl.where(size < 0.5, size * size, 0.0)
    above = 135135.0 + q * (17325.0 + q * (378.0 + q))
    below = 135135.0 + q * (62370.0 + q * (3150.0 + q * 28.0))
    value = tl.where(size < 0.5, size * (above / below), far)
    return tl.where(x < 0.0, -value, value)


@triton.jit
def add_parts(parts, partial, out, num_parts, width, BR: tl.constexpr, BC: tl.constexpr):
    """out[row] = the sum of the row's parts, for each part that is its row's first one."""
    place = tl.program_id(0) * BR + tl.arange(0, BR)
    known = place < num_parts
    row = tl.load(parts + place * 4, mask=known, other=0).to(tl.int64)
    end = tl.load(parts + place * 4 + 3, mask=known, other=0)  # of its row's parts, zero for all but the first
    known = known & (end > place)
    column = tl.program_id(1) * BC + tl.arange(0, BC)
    inside = (column < width)[None, :]
    total = tl.full([BR, BC], 0.0, dtype=partial.dtype.element_ty)
    for step in range(tl.max(tl.where(known, end - place, 0), axis=0)):
        at = (place + step).to(tl.int64)
        valid = (known & (place + step < end))[:, None] & inside
        total += tl.load(partial + (at * width)[:, None] + column[None, :], mask=valid, other=0.0)
    tl.store(out + (row * width)[:, None] + column[None, :], total, mask=known[:, None] & inside)

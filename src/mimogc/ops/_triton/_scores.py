"""The kernels of the scores: GATv2's pairs with their gradients, and the softmax over the edges into a node.

Arrays are as in `_sums`.
"""

import triton
import triton.language as tl

from mimogc.ops._triton._items import rows_of


@triton.jit(do_not_specialize=["num_rows", "num_parts", "split", "K", "C", "D"])
def score_pairs(
    ptr, nodes, parts, source, target, att, edge, weight, out, num_rows, num_parts, split, K, C, D, leak: tl.float64,
    ACC: tl.constexpr, EDGE: tl.constexpr, BR: tl.constexpr, BE: tl.constexpr, BC: tl.constexpr,
):  # fmt: skip
    """out[e, k] = att[k] · LeakyReLU(source[j(e), k] + target[i, k]), for the edges into each node.

    With EDGE, Σ_d edge[e, d] weight[d, k] is added within LeakyReLU.
    """
    row, first, last, _whole, _is_part, _part = rows_of(ptr, parts, num_rows, num_parts, split, BR)
    count = (last - first) * K
    slope = tl.full([1, 1, 1], leak, dtype=ACC)
    for step in range(0, tl.max(count, axis=0), BE):
        pair = step + tl.arange(0, BE)
        valid = pair[None, :] < count[:, None]
        k = (pair % K)[None, :]
        e = (first[:, None] + (pair // K)[None, :]).to(tl.int64)
        j = tl.load(nodes + e, mask=valid, other=0).to(tl.int64)
        total = tl.full([BR, BE], 0.0, dtype=ACC)
        for block in range(0, C, BC):
            channel = (block + tl.arange(0, BC))[None, None, :]
            both = valid[:, :, None] & (channel < C)
            theirs = tl.load(source + ((j * K + k) * C)[:, :, None] + channel, mask=both, other=0.0).to(ACC)
            mine = (((row * K)[:, None] + k) * C)[:, :, None] + channel
            z = theirs + tl.load(target + mine, mask=both, other=0.0).to(ACC)
            if EDGE:
                for d in range(D):
                    feature = tl.load(edge + e * D + d, mask=valid, other=0.0).to(ACC)
                    place = weight + ((d * K + k) * C)[:, :, None] + channel
                    z += feature[:, :, None] * tl.load(place, mask=both, other=0.0).to(ACC)
            factor = tl.load(att + (k * C)[:, :, None] + channel, mask=both, other=0.0).to(ACC)
            total += tl.sum(tl.where(z > 0.0, z, z * slope) * factor, axis=2)
        tl.store(out + e * K + k, total, mask=valid)


@triton.jit(do_not_specialize=["num_rows", "num_parts", "split", "K", "C", "D"])
def pairs_grad(
    ptr, nodes, slot, parts, own, other, att, edge, weight, g, out, partial, att_out,
    num_rows, num_parts, split, K, C, D, leak: tl.float64,
    SLOT: tl.constexpr, EDGE: tl.constexpr, BR: tl.constexpr, BE: tl.constexpr, BC: tl.constexpr,
):  # fmt: skip
    """out[r, q] = att[q] Σ_e g(e, q // C) LeakyReLU′(z), with z = own[r, q] + other[n(e), q], for the K · C columns q.

    With EDGE, Σ_d edge[e, d] weight[d, q] is added to z. Over the edges into a node (without SLOT) also
    att_out[item, q] = Σ_e g(e, q // C) LeakyReLU(z), by row and by part.
    """
    acc_type: tl.constexpr = partial.dtype.element_ty
    row, first, last, whole, is_part, part = rows_of(ptr, parts, num_rows, num_parts, split, BR)
    width = K * C
    column = tl.program_id(1) * BC + tl.arange(0, BC)
    inside = column < width
    k = (column // C)[None, None, :]
    here = (whole | is_part)[:, None] & inside[None, :]
    mine = tl.load(own + (row * width)[:, None] + column[None, :], mask=here, other=0.0).to(acc_type)
    slope = tl.full([1, 1, 1], leak, dtype=acc_type)
    total = tl.full([BR, BE, BC], 0.0, dtype=acc_type)
    activated = tl.full([BR, BE, BC], 0.0, dtype=acc_type)
    for step in range(0, tl.max(last - first, axis=0), BE):
        e = first[:, None] + step + tl.arange(0, BE)[None, :]
        valid = e < last[:, None]
        n = tl.load(nodes + e, mask=valid, other=0).to(tl.int64)
        at = tl.load(slot + e, mask=valid, other=0).to(tl.int64) if SLOT else e.to(tl.int64)
        both = valid[:, :, None] & inside[None, None, :]
        place = other + (n * width)[:, :, None] + column[None, None, :]
        z = mine[:, None, :] + tl.load(place, mask=both, other=0.0).to(acc_type)
        if EDGE:
            for d in range(D):
                feature = tl.load(edge + at * D + d, mask=valid, other=0.0).to(acc_type)
                mapped = tl.load(weight + d * width + column, mask=inside, other=0.0).to(acc_type)
                z += feature[:, :, None] * mapped[None, None, :]
        score = tl.load(g + (at * K)[:, :, None] + k, mask=both, other=0.0).to(acc_type)
        total += tl.where(z > 0.0, score, score * slope)
        if not SLOT:
            activated += tl.where(both, score * tl.where(z > 0.0, z, z * slope), 0.0)
    factor = tl.load(att + column, mask=inside, other=0.0).to(acc_type)
    total = tl.sum(total, axis=1) * factor[None, :]
    tl.store(out + (row * width)[:, None] + column[None, :], total, mask=whole[:, None] & inside[None, :])
    tl.store(partial + (part * width)[:, None] + column[None, :], total, mask=is_part[:, None] & inside[None, :])
    if not SLOT:
        item = tl.program_id(0) * BR + tl.arange(0, BR)
        place = att_out + (item.to(tl.int64) * width)[:, None] + column[None, :]
        known = (item < num_rows + num_parts)[:, None] & inside[None, :]
        tl.store(place, tl.sum(activated, axis=1), mask=known)


@triton.jit
def _softmax_step(high, low, x, valid):
    """The largest score so far and Σ exp(score − largest), with those of one more block of edges."""
    x = tl.where(valid, x, float("-inf"))
    higher = tl.maximum(high, tl.max(x, axis=1))
    base = tl.where(higher == float("-inf"), 0.0, higher)
    return higher, low * tl.exp(high - base) + tl.sum(tl.exp(x - base[:, None, :]), axis=1)


@triton.jit(do_not_specialize=["num_rows", "num_parts", "split", "K"])
def softmax_rows(
    ptr, parts, score, g, out, partial, num_rows, num_parts, split, K,
    GRAD: tl.constexpr, BR: tl.constexpr, BE: tl.constexpr, BC: tl.constexpr,
):  # fmt: skip
    """out[e, k] = exp(score[e, k]) / Σ over its row; with GRAD, out = α (g − Σ α g) for α = score.

    A row is read twice, the second time from a cache. Of a part only what its row's sums are made of is kept:
    partial[part, 0] the largest score, [part, 1] the sum.
    """
    acc_type: tl.constexpr = partial.dtype.element_ty
    _row, first, last, whole, is_part, part = rows_of(ptr, parts, num_rows, num_parts, split, BR)
    k = tl.program_id(1) * BC + tl.arange(0, BC)
    high = tl.full([BR, BC], float("-inf"), dtype=acc_type)
    low = tl.full([BR, BC], 0.0, dtype=acc_type)
    longest = tl.max(last - first, axis=0)
    for step in range(0, longest, BE):
        e = first[:, None] + step + tl.arange(0, BE)[None, :]
        valid = (e < last[:, None])[:, :, None] & (k < K)[None, None, :]
        at = (e.to(tl.int64) * K)[:, :, None] + k[None, None, :]
        x = tl.load(score + at, mask=valid, other=0.0).to(acc_type)
        if GRAD:
            low += tl.sum(x * tl.load(g + at, mask=valid, other=0.0).to(acc_type), axis=1)
        else:
            high, low = _softmax_step(high, low, x, valid)
    place = (part * 2 * K)[:, None] + k[None, :]
    known = is_part[:, None] & (k < K)[None, :]
    tl.store(partial + place, high, mask=known)
    tl.store(partial + place + K, low, mask=known)
    base = tl.where(high == float("-inf"), 0.0, high)
    for step in range(0, longest, BE):
        e = first[:, None] + step + tl.arange(0, BE)[None, :]
        valid = ((e < last[:, None]) & whole[:, None])[:, :, None] & (k < K)[None, None, :]
        at = (e.to(tl.int64) * K)[:, :, None] + k[None, None, :]
        x = tl.load(score + at, mask=valid, other=0.0).to(acc_type)
        if GRAD:
            x *= tl.load(g + at, mask=valid, other=0.0).to(acc_type) - low[:, None, :]
        else:
            x = tl.exp(x - base[:, None, :]) / low[:, None, :]
        tl.store(out + at, x, mask=valid)


@triton.jit(do_not_specialize=["num_parts", "K"])
def softmax_parts(
    parts, begin, score, g, out, partial, num_parts, K,
    GRAD: tl.constexpr, BR: tl.constexpr, BE: tl.constexpr, BC: tl.constexpr,
):  # fmt: skip
    """The same for the edges of parts, from the sums of all parts of a row; begin[part] is the first one of its row."""
    acc_type: tl.constexpr = partial.dtype.element_ty
    part = tl.program_id(0) * BR + tl.arange(0, BR)
    known = part < num_parts
    first = tl.load(parts + part * 4 + 1, mask=known, other=0)
    last = tl.load(parts + part * 4 + 2, mask=known, other=0)
    start = tl.load(begin + part, mask=known, other=0)
    end = tl.load(parts + start * 4 + 3, mask=known & (last > first), other=0)
    k = tl.program_id(1) * BC + tl.arange(0, BC)
    high = tl.full([BR, BC], float("-inf"), dtype=acc_type)
    low = tl.full([BR, BC], 0.0, dtype=acc_type)
    for step in range(tl.max(tl.where(end > start, end - start, 0), axis=0)):
        valid = (start + step < end)[:, None] & (k < K)[None, :]
        place = partial + ((start + step).to(tl.int64) * 2 * K)[:, None] + k[None, :]
        theirs = tl.load(place, mask=valid, other=float("-inf"))
        total = tl.load(place + K, mask=valid, other=0.0)
        if GRAD:
            low += total
        else:
            higher = tl.maximum(high, theirs)
            base = tl.where(higher == float("-inf"), 0.0, higher)
            low = low * tl.exp(high - base) + total * tl.exp(theirs - base)
            high = higher
    base = tl.where(high == float("-inf"), 0.0, high)
    for step in range(0, tl.max(last - first, axis=0), BE):
        e = first[:, None] + step + tl.arange(0, BE)[None, :]
        valid = (e < last[:, None])[:, :, None] & (k < K)[None, None, :]
        at = (e.to(tl.int64) * K)[:, :, None] + k[None, None, :]
        x = tl.load(score + at, mask=valid, other=0.0).to(acc_type)
        if GRAD:
            x *= tl.load(g + at, mask=valid, other=0.0).to(acc_type) - low[:, None, :]
        else:
            x = tl.exp(x - base[:, None, :]) / low[:, None, :]
        tl.store(out + at, x, mask=valid)

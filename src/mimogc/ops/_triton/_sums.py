"""The kernels of the sums: forward over the edges into a node, backward over those out of it.

Arrays: ptr [rows + 1] and nodes [E] are one order of a graph, slot [E] the places of its edges in the order by
destination (the edges' own, in which alpha and edge are given). K graphs, C channels. Sums are made in the type of
`partial`, which is float32 for the 16-bit types.
"""

import triton
import triton.language as tl

from mimogc.ops._triton._items import rows_of, tanh


@triton.jit(do_not_specialize=["num_rows", "num_parts", "split", "has_edge", "K", "C"])
def gather_sum(
    ptr, nodes, parts, alpha, own, other, edge, h, out, partial, num_rows, num_parts, split, has_edge, K, C,
    TANH: tl.constexpr, BR: tl.constexpr, BE: tl.constexpr, BC: tl.constexpr,
):  # fmt: skip
    """out[i, c] = Σ_e Σ_k α(e, k) h[j(e), k, c]; α is given, or tanh(own[i, k] + other[j, k] + edge[e, k]).

    The pairs (e, k) of a row are taken BE at a time, as α has them in memory.
    """
    acc_type: tl.constexpr = partial.dtype.element_ty
    row, first, last, whole, is_part, part = rows_of(ptr, parts, num_rows, num_parts, split, BR)
    channel = tl.program_id(1) * BC + tl.arange(0, BC)
    inside = channel < C
    count = (last - first) * K
    total = tl.full([BR, BE, BC], 0.0, dtype=acc_type)
    for step in range(0, tl.max(count, axis=0), BE):
        pair = step + tl.arange(0, BE)
        valid = pair[None, :] < count[:, None]
        k = (pair % K)[None, :]
        e = (first[:, None] + (pair // K)[None, :]).to(tl.int64)
        j = tl.load(nodes + e, mask=valid, other=0).to(tl.int64)
        if TANH:
            score = tl.load(own + (row * K)[:, None] + k, mask=valid, other=0.0).to(acc_type)
            score += tl.load(other + j * K + k, mask=valid, other=0.0).to(acc_type)
            scored = pair[None, :] < (count * has_edge)[:, None]
            score += tl.load(edge + e * K + k, mask=scored, other=0.0).to(acc_type)
            weight = tanh(score)
        else:
            weight = tl.load(alpha + e * K + k, mask=valid, other=0.0).to(acc_type)
        place = h + ((j * K + k) * C)[:, :, None] + channel[None, None, :]
        value = tl.load(place, mask=valid[:, :, None] & inside[None, None, :], other=0.0).to(acc_type)
        total += weight[:, :, None] * value
    total = tl.sum(total, axis=1)
    tl.store(out + (row * C)[:, None] + channel[None, :], total, mask=whole[:, None] & inside[None, :])
    tl.store(partial + (part * C)[:, None] + channel[None, :], total, mask=is_part[:, None] & inside[None, :])


@triton.jit(do_not_specialize=["num_rows", "num_parts", "split", "K", "C", "stride", "modulus"])
def flat_sum(
    ptr, nodes, slot, parts, alpha, values, out, partial, num_rows, num_parts, split, K, C, stride, modulus,
    SLOT: tl.constexpr, BR: tl.constexpr, BE: tl.constexpr, BC: tl.constexpr,
):  # fmt: skip
    """out[r, q] = Σ_e α(e, q // C) values[n(e) · stride + q % modulus] for the K · C columns q.

    With modulus K · C the values have K heads, with C they are shared by the heads.
    """
    acc_type: tl.constexpr = partial.dtype.element_ty
    row, first, last, whole, is_part, part = rows_of(ptr, parts, num_rows, num_parts, split, BR)
    width = K * C
    column = tl.program_id(1) * BC + tl.arange(0, BC)
    inside = column < width
    k = (column // C)[None, None, :]
    within = (column % modulus)[None, None, :]
    total = tl.full([BR, BE, BC], 0.0, dtype=acc_type)
    for step in range(0, tl.max(last - first, axis=0), BE):
        e = first[:, None] + step + tl.arange(0, BE)[None, :]
        valid = e < last[:, None]
        n = tl.load(nodes + e, mask=valid, other=0).to(tl.int64)
        at = tl.load(slot + e, mask=valid, other=0).to(tl.int64) if SLOT else e.to(tl.int64)
        both = valid[:, :, None] & inside[None, None, :]
        weight = tl.load(alpha + (at * K)[:, :, None] + k, mask=both, other=0.0).to(acc_type)
        value = tl.load(values + (n * stride)[:, :, None] + within, mask=both, other=0.0).to(acc_type)
        total += weight * value
    total = tl.sum(total, axis=1)
    tl.store(out + (row * width)[:, None] + column[None, :], total, mask=whole[:, None] & inside[None, :])
    tl.store(partial + (part * width)[:, None] + column[None, :], total, mask=is_part[:, None] & inside[None, :])


@triton.jit(do_not_specialize=["num_rows", "num_parts", "split", "has_edge", "K", "C"])
def spread_sum(
    ptr, nodes, slot, parts, alpha, own, other, edge, values, h, out, partial, sampled, own_out, own_partial,
    num_rows, num_parts, split, has_edge, K, C,
    TANH: tl.constexpr, SAMPLE: tl.constexpr, BR: tl.constexpr, BE: tl.constexpr, BK: tl.constexpr, BC: tl.constexpr,
):  # fmt: skip
    """out[r, k, c] = Σ_e α(e, k) values[n(e), c], reading a row of values once for BK graphs.

    With SAMPLE, which is over the edges out of a node, also sampled[e, k] = ⟨values[n(e)], h[r, k]⟩, which needs all
    channels in one block; with TANH then times 1 − α², and own_out[r, k] its sum over e.
    """
    acc_type: tl.constexpr = partial.dtype.element_ty
    row, first, last, whole, is_part, part = rows_of(ptr, parts, num_rows, num_parts, split, BR)
    k = tl.program_id(1) * BK + tl.arange(0, BK)
    channel = tl.program_id(2) * BC + tl.arange(0, BC)
    inside = channel < C
    heads = (k < K)[None, :, None] & inside[None, None, :]
    place = (row * K)[:, None] + k[None, :]
    if SAMPLE:
        here = (whole | is_part)[:, None, None] & heads
        mine = tl.load(h + (place * C)[:, :, None] + channel[None, None, :], mask=here, other=0.0).to(acc_type)
        slope = tl.full([BR, BE, BK], 0.0, dtype=acc_type)
    total = tl.full([BR, BE, BK, BC], 0.0, dtype=acc_type)
    for step in range(0, tl.max(last - first, axis=0), BE):
        e = first[:, None] + step + tl.arange(0, BE)[None, :]
        valid = e < last[:, None]
        n = tl.load(nodes + e, mask=valid, other=0).to(tl.int64)
        at = tl.load(slot + e, mask=valid, other=0).to(tl.int64) if SAMPLE else e.to(tl.int64)
        known = valid[:, :, None] & (k < K)[None, None, :]
        at = (at * K)[:, :, None] + k[None, None, :]
        if TANH:
            score = tl.load(own + place[:, None, :], mask=known, other=0.0).to(acc_type)
            score += tl.load(other + (n * K)[:, :, None] + k[None, None, :], mask=known, other=0.0).to(acc_type)
            scored = (e < (first + (last - first) * has_edge)[:, None])[:, :, None] & known
            score += tl.load(edge + at, mask=scored, other=0.0).to(acc_type)
            weight = tanh(score)
        else:
            weight = tl.load(alpha + at, mask=known, other=0.0).to(acc_type)
        found = values + (n * C)[:, :, None] + channel[None, None, :]
        value = tl.load(found, mask=valid[:, :, None] & inside[None, None, :], other=0.0).to(acc_type)
        total += weight[:, :, :, None] * value[:, :, None, :]
        if SAMPLE:
            product = tl.sum(mine[:, None, :, :] * value[:, :, None, :], axis=3)
            if TANH:
                product *= 1.0 - weight * weight
                slope += tl.where(known, product, 0.0)
            tl.store(sampled + at, product, mask=known)
    total = tl.sum(total, axis=1)
    heads_of = (place * C)[:, :, None] + channel[None, None, :]
    tl.store(out + heads_of, total, mask=whole[:, None, None] & heads)
    parts_of = ((part * K)[:, None] + k[None, :])[:, :, None] * C + channel[None, None, :]
    tl.store(partial + parts_of, total, mask=is_part[:, None, None] & heads)
    if SAMPLE and TANH:
        slope = tl.sum(slope, axis=1)
        tl.store(own_out + place, slope, mask=whole[:, None] & (k < K)[None, :])
        tl.store(own_partial + (part * K)[:, None] + k[None, :], slope, mask=is_part[:, None] & (k < K)[None, :])


@triton.jit(do_not_specialize=["num_rows", "num_parts", "split", "K", "C", "stride", "head"])
def sample_pairs(
    ptr, nodes, slot, parts, g, h, product, num_rows, num_parts, split, K, C, stride, head,
    BR: tl.constexpr, BE: tl.constexpr, BC: tl.constexpr,
):  # fmt: skip
    """product[e, k] = ⟨g[n(e) · stride + k · head ...], h[r, k]⟩ over all channels, for the edges out of each node.

    It has the type of the sums, not that of g and h.
    """
    acc_type: tl.constexpr = product.dtype.element_ty
    row, first, last, _whole, _is_part, _part = rows_of(ptr, parts, num_rows, num_parts, split, BR)
    count = (last - first) * K
    for step in range(0, tl.max(count, axis=0), BE):
        pair = step + tl.arange(0, BE)
        valid = pair[None, :] < count[:, None]
        k = (pair % K)[None, :]
        e = first[:, None] + (pair // K)[None, :]
        n = tl.load(nodes + e, mask=valid, other=0).to(tl.int64)
        at = tl.load(slot + e, mask=valid, other=0).to(tl.int64)
        total = tl.full([BR, BE], 0.0, dtype=acc_type)
        for block in range(0, C, BC):
            channel = block + tl.arange(0, BC)
            both = valid[:, :, None] & (channel < C)[None, None, :]
            theirs = tl.load(g + (n * stride + k * head)[:, :, None] + channel[None, None, :], mask=both, other=0.0)
            mine = ((row * K)[:, None] + k) * C
            mine = tl.load(h + mine[:, :, None] + channel[None, None, :], mask=both, other=0.0)
            total += tl.sum(theirs.to(acc_type) * mine.to(acc_type), axis=2)
        tl.store(product + at * K + k, total, mask=valid)

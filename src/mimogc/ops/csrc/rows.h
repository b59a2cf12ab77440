// What happens at one row: weighted sums of gathered features, and dot products with them.
//
// Channels are walked in blocks of whole vectors; the last block is moved back to end at C, so that it overlaps the
// one before: sums write the same values twice, dot products mask the overlap. Fewer channels than lanes go one by one.
#pragma once
#include <type_traits>

#include "simd.h"

namespace mimogc {

constexpr int kCacheLine = 64;
constexpr int64_t kChunk = 32;         // edges whose rows stay in the first cache while all channels of them are summed
constexpr int64_t kPrefetch = kChunk;  // edges ahead; the neighbours of the next rows follow in memory

// The neighbours of a row. `readable` counts those behind `index` in the whole graph, for prefetching.
struct Neighbours {
    const int32_t* index;
    int64_t count;
    int64_t readable;
};

template <class T>
inline int blocks_of(int64_t C) {
    return int((C + Simd<T>::lanes - 1) / Simd<T>::lanes);
}
template <class T>
inline int64_t block_start(int block, int64_t C) {
    const int64_t start = int64_t(block) * Simd<T>::lanes, last = C - Simd<T>::lanes;
    return start < last ? start : last;
}

// Which of several tiles of channels this is. Each fetches its share of the rows ahead, and these whole: memory gives
// the lines of one row together much faster than one by one.
struct Turn {
    int64_t now, of;
};

template <class T>
inline void fetch_row(const T* row, int64_t C) {
    for (int64_t c = 0; c < C; c += kCacheLine / int64_t(sizeof(T))) __builtin_prefetch(row + c);
}

// z[k, start_b ...] = Σ_e a[e, k] x[e, start_b ...] for KB graphs and NB blocks, all in registers; `add`ed to what was.
template <class T, int KB, int NB>
inline void sum_tile(Neighbours nb, const T* a, int64_t K, const T* x, int64_t C, int64_t stride, const int64_t* start,
                     Turn turn, bool add, T* z, int64_t z_stride) {
    int64_t next = turn.now;
    Vec<T> acc[KB][NB] = {};
    if (add)
        for (int k = 0; k < KB; k++)
            for (int b = 0; b < NB; b++) acc[k][b] = load(z + k * z_stride + start[b]);
    for (int64_t e = 0; e < nb.count; e++) {
        if (e == next) {
            next += turn.of;
            if (e + kPrefetch < nb.readable) fetch_row<T>(x + nb.index[e + kPrefetch] * stride, C);
        }
        const T* xe = x + nb.index[e] * stride;
        Vec<T> block[NB];
#pragma GCC unroll 8
        for (int b = 0; b < NB; b++) block[b] = load(xe + start[b]);
#pragma GCC unroll 4
        for (int k = 0; k < KB; k++) {
            const T weight = a[e * K + k];
#pragma GCC unroll 8
            for (int b = 0; b < NB; b++) acc[k][b] += block[b] * weight;
        }
    }
#pragma GCC unroll 4
    for (int k = 0; k < KB; k++)
#pragma GCC unroll 8
        for (int b = 0; b < NB; b++) store(z + k * z_stride + start[b], acc[k][b]);
}

template <class T, int KB, int NB = kAccumulators / KB>
inline void sum_blocks(int blocks, Neighbours nb, const T* a, int64_t K, const T* x, int64_t C, int64_t stride,
                       const int64_t* start, Turn turn, bool add, T* z, int64_t z_stride) {
    if constexpr (NB > 1) {
        if (blocks < NB)
            return sum_blocks<T, KB, NB - 1>(blocks, nb, a, K, x, C, stride, start, turn, add, z, z_stride);
    }
    sum_tile<T, KB, NB>(nb, a, K, x, C, stride, start, turn, add, z, z_stride);
}

// z[k, :] (+)= Σ_e a[e, k] x[e, :] for KB ≤ 4 graphs that share the gathered features, and not more than a few edges.
// The last block of channels may overlap the one before: all start from what z was.
template <class T, int KB>
inline void sum_chunk(Neighbours nb, int64_t C, const T* a, int64_t K, const T* x, int64_t stride, bool add, T* z,
                      int64_t z_stride) {
    if (C < Simd<T>::lanes) {
        for (int k = 0; k < KB && !add; k++)
            for (int64_t c = 0; c < C; c++) z[k * z_stride + c] = 0;
        for (int64_t e = 0; e < nb.count; e++) {
            const T* xe = x + nb.index[e] * stride;
            for (int k = 0; k < KB; k++)
                for (int64_t c = 0; c < C; c++) z[k * z_stride + c] += a[e * K + k] * xe[c];
        }
        return;
    }
    constexpr int per_tile = kAccumulators / KB, lanes = Simd<T>::lanes;
    const int blocks = blocks_of<T>(C);
    int64_t start[per_tile];
    Vec<T> last[KB];  // of the overlapping block before anything was added to it
    for (int k = 0; k < KB && add; k++) last[k] = load(z + k * z_stride + C - lanes);
    for (int first = 0; first < blocks; first += per_tile) {
        const int now = blocks - first < per_tile ? blocks - first : per_tile;
        for (int b = 0; b < now; b++) start[b] = block_start<T>(first + b, C);
        if (add && first > 0 && first + now == blocks)
            for (int k = 0; k < KB; k++) store(z + k * z_stride + C - lanes, last[k]);
        const Turn turn = {first / per_tile, (blocks + per_tile - 1) / per_tile};
        sum_blocks<T, KB>(now, nb, a, K, x, C, stride, start, turn, add, z, z_stride);
    }
}

// The same for any number of edges, some at a time.
template <class T, int KB>
inline void sum_shared(Neighbours nb, int64_t C, const T* a, int64_t K, const T* x, int64_t stride, T* z,
                       int64_t z_stride) {
    int64_t e = 0;
    do {
        const int64_t count = nb.count - e < kChunk ? nb.count - e : kChunk;
        const Neighbours now = {nb.index + e, count, nb.readable - e};
        sum_chunk<T, KB>(now, C, a + e * K, K, x, stride, e > 0, z, z_stride);
        e += kChunk;
    } while (e < nb.count);
}

// out[start_b ...] += Σ_e Σ_k a[e, k] h[e, k, start_b ...] for KB graphs and NB blocks. The sum over k comes first: it
// keeps the chain of additions, and so the rounding error, as short as the number of edges.
template <class T, int KB, int NB>
inline void sum_heads_tile(Neighbours nb, int64_t K, int64_t C, const T* a, const T* h, const int64_t* start, bool add,
                           T* out) {
    constexpr int64_t ahead_by = 16 / KB;
    const int64_t stride = K * C;
    Vec<T> acc[NB] = {};
    if (add)
        for (int b = 0; b < NB; b++) acc[b] = load(out + start[b]);
    for (int64_t e = 0; e < nb.count; e++) {
        if (e + ahead_by < nb.readable) {
            const T* ahead = h + nb.index[e + ahead_by] * stride + start[0];
            for (int k = 0; k < KB; k++)
                for (int b = 0; b < NB; b += kCacheLine / kVectorBytes)
                    __builtin_prefetch(ahead + k * C + b * Simd<T>::lanes);
        }
        const T* he = h + nb.index[e] * stride;
        const T* weight = a + e * K;
#pragma GCC unroll 8
        for (int b = 0; b < NB; b++) {
            Vec<T> message = load(he + start[b]) * weight[0];
#pragma GCC unroll 4
            for (int k = 1; k < KB; k++) message += load(he + k * C + start[b]) * weight[k];
            acc[b] += message;
        }
    }
#pragma GCC unroll 8
    for (int b = 0; b < NB; b++) store(out + start[b], acc[b]);
}

template <class T, int KB, int NB = 8>
inline void sum_heads_blocks(int blocks, Neighbours nb, int64_t K, int64_t C, const T* a, const T* h,
                             const int64_t* start, bool add, T* out) {
    if constexpr (NB > 1) {
        if (blocks < NB) return sum_heads_blocks<T, KB, NB - 1>(blocks, nb, K, C, a, h, start, add, out);
    }
    sum_heads_tile<T, KB, NB>(nb, K, C, a, h, start, add, out);
}

// Calls body with the number of graphs, at most 4, and the first of them, as a compile-time and a run-time number.
template <class Body>
inline void for_heads(int64_t K, const Body& body) {
    int64_t k = 0;
    for (; k + 4 <= K; k += 4) body(std::integral_constant<int, 4>{}, k);
    if (K - k == 3) body(std::integral_constant<int, 3>{}, k);
    if (K - k == 2) body(std::integral_constant<int, 2>{}, k);
    if (K - k == 1) body(std::integral_constant<int, 1>{}, k);
}

// z[k, :] = Σ_e a[e, k] x[e, :] for all K graphs.
template <class T>
inline void sum_to_heads(Neighbours nb, int64_t K, int64_t C, const T* a, const T* x, T* z) {
    for_heads(K, [&](auto KB, int64_t k) { sum_shared<T, KB>(nb, C, a + k, K, x, C, z + k * C, C); });
}

// out = Σ_e Σ_k a[e, k] h[e, k, :].
template <class T>
inline void sum_heads(Neighbours nb, int64_t K, int64_t C, const T* a, const T* h, T* out) {
    if (C < Simd<T>::lanes || K == 0) {
        for (int64_t c = 0; c < C; c++) out[c] = 0;
        for (int64_t e = 0; e < nb.count; e++) {
            const T* he = h + nb.index[e] * K * C;
            for (int64_t c = 0; c < C; c++) {
                T message = 0;
                for (int64_t k = 0; k < K; k++) message += a[e * K + k] * he[k * C + c];
                out[c] += message;
            }
        }
        return;
    }
    const int blocks = blocks_of<T>(C);
    for (int first = 0; first < blocks; first += 8) {
        const int now = blocks - first < 8 ? blocks - first : 8;
        int64_t start[8];
        for (int b = 0; b < now; b++) start[b] = block_start<T>(first + b, C);
        // The last block may overlap the one before, in this tile or in an earlier one: so all graphs, then the next
        // tile.
        for_heads(K, [&](auto KB, int64_t k) {
            sum_heads_blocks<T, KB>(now, nb, K, C, a + k, h + k * C, start, k > 0, out);
        });
    }
}

// d[e, k] = ⟨x_e, h_k⟩ for KB ≤ 4 graphs, two edges at a time so that each load of h serves both.
template <class T, int KB>
inline void dot_shared(Neighbours nb, int64_t C, const T* x, int64_t stride, const T* h, int64_t h_stride, T* d,
                       int64_t K) {
    constexpr int lanes = Simd<T>::lanes;
    if (C < lanes) {
        for (int64_t e = 0; e < nb.count; e++) {
            const T* xe = x + nb.index[e] * stride;
            for (int k = 0; k < KB; k++) {
                T total = 0;
                for (int64_t c = 0; c < C; c++) total += xe[c] * h[k * h_stride + c];
                d[e * K + k] = total;
            }
        }
        return;
    }
    const int64_t whole = C / lanes * lanes, overlap = C - whole == 0 ? 0 : lanes - (C - whole);
    Vec<T> lane;
    for (int i = 0; i < lanes; i++) lane[i] = T(i);
    const auto fresh = lane >= T(overlap);  // the lanes of the last block that no earlier block had
    for (int64_t e = 0; e < nb.count; e += 2) {
        const bool pair = e + 1 < nb.count;
        const T* x0 = x + nb.index[e] * stride;
        const T* x1 = x + nb.index[e + pair] * stride;
        Vec<T> p0[KB] = {}, p1[KB] = {};
        for (int64_t c = 0; c < whole; c += lanes) {
            const Vec<T> v0 = load(x0 + c), v1 = load(x1 + c);
#pragma GCC unroll 4
            for (int k = 0; k < KB; k++) {
                const Vec<T> w = load(h + k * h_stride + c);
                p0[k] += v0 * w;
                p1[k] += v1 * w;
            }
        }
        if (overlap) {
            const Vec<T> v0 = load(x0 + C - lanes), v1 = load(x1 + C - lanes);
#pragma GCC unroll 4
            for (int k = 0; k < KB; k++) {  // the others are chosen away, not multiplied by 0: they may be infinite
                const Vec<T> w = load(h + k * h_stride + C - lanes);
                p0[k] += fresh ? v0 * w : Vec<T>{};
                p1[k] += fresh ? v1 * w : Vec<T>{};
            }
        }
        lane_sums<T, KB>(p0, d + e * K);
        if (pair) lane_sums<T, KB>(p1, d + (e + 1) * K);
    }
}

}  // namespace mimogc

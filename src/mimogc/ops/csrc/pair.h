// What happens at one edge where its ends meet within a LeakyReLU: the score of the pair, and its gradients.
#pragma once
#include "call.h"
#include "rows.h"
#include "simd.h"

namespace mimogc {

// The rows of one edge, from one graph on: K·C numbers each; `type` may be null.
template <class T>
struct Ends {
    const T *source, *target, *type;

    T sum(int64_t c) const { return type ? source[c] + target[c] + type[c] : source[c] + target[c]; }
    Vec<T> sums(int64_t c) const {
        const Vec<T> both = load(source + c) + load(target + c);
        return type ? both + load(type + c) : both;
    }
    Ends from(int64_t c) const { return {source + c, target + c, type ? type + c : nullptr}; }
};

// Where the arrays are, and the rows of an edge in them.
template <class T>
struct Pairs {
    const T *source, *target, *att, *table;
    const int64_t* kinds;
    int64_t width;

    Pairs(const MimogcPairs& given, int64_t width)
        : source(as<T>(given.source)),
          target(as<T>(given.target)),
          att(as<T>(given.att)),
          table(as<T>(given.table)),
          kinds(given.kinds),
          width(width) {}
    // Of edge e: j → i.
    Ends<T> of(int64_t e, int64_t j, int64_t i) const {
        return {source + j * width, target + i * width, table ? table + kinds[e] * width : nullptr};
    }
};

// The channels that fill no vector are the last of a block that ends at C: `fresh` are those that no block before had.
template <class T>
struct Tail {
    Vec<T> fresh;  // 1 there, else 0; what lies beside is chosen away, not multiplied by 0: it may be infinite
    int64_t whole, start;

    explicit Tail(int64_t C) : fresh{}, whole(C / Simd<T>::lanes * Simd<T>::lanes), start(C - Simd<T>::lanes) {
        for (int i = 0; i < Simd<T>::lanes; i++) fresh[i] = T(start + i >= whole);
    }
    bool any() const { return start + Simd<T>::lanes > whole; }
    Vec<T> only(const Vec<T>& x) const { return fresh > T(0) ? x : Vec<T>{}; }
};

// out[k] = Σ_c a[k, c] LeakyReLU(z[k, c]) for KB graphs.
template <class T, int KB>
inline void pair_score(int64_t C, T slope, const Tail<T>& tail, const Ends<T>& ends, const T* a, T* out) {
    constexpr int lanes = Simd<T>::lanes;
    if (C < lanes) {
        for (int k = 0; k < KB; k++) {
            out[k] = 0;
            for (int64_t c = k * C; c < (k + 1) * C; c++) {
                const T z = ends.sum(c);
                out[k] += a[c] * (z > T(0) ? z : z * slope);
            }
        }
        return;
    }
    Vec<T> acc[KB] = {};
#pragma GCC unroll 4
    for (int k = 0; k < KB; k++) {
        for (int64_t c = k * C; c < k * C + tail.whole; c += lanes) {
            const Vec<T> z = ends.sums(c);
            acc[k] += load(a + c) * (z > T(0) ? z : z * slope);
        }
        if (tail.any()) {
            const Vec<T> z = ends.sums(k * C + tail.start);
            const Vec<T> term = load(a + k * C + tail.start) * (z > T(0) ? z : z * slope);
            acc[k] += tail.only(term);
        }
    }
    lane_sums<T, KB>(acc, out);
}

// out[k] = ⟨g, h_k⟩ for KB graphs.
template <class T, int KB>
inline void dot_heads(int64_t C, const Tail<T>& tail, const T* g, const T* h, T* out) {
    constexpr int lanes = Simd<T>::lanes;
    if (C < lanes) {
        for (int k = 0; k < KB; k++) {
            out[k] = 0;
            for (int64_t c = 0; c < C; c++) out[k] += g[c] * h[k * C + c];
        }
        return;
    }
    Vec<T> acc[KB] = {};
    for (int64_t c = 0; c < tail.whole; c += lanes) {
        const Vec<T> shared = load(g + c);
#pragma GCC unroll 4
        for (int k = 0; k < KB; k++) acc[k] += shared * load(h + k * C + c);
    }
    if (tail.any()) {
        const Vec<T> shared = load(g + tail.start);
#pragma GCC unroll 4
        for (int k = 0; k < KB; k++) acc[k] += tail.only(shared * load(h + k * C + tail.start));
    }
    lane_sums<T, KB>(acc, out);
}

// Where the gradients of one edge and graph go, those that are wanted.
template <class T>
struct Grads {
    T *own, *other, *att, *type;

    void add(int64_t c, const Vec<T>& back, const Vec<T>& forth) const {
        store(own + c, load(own + c) + back);
        if (other) store(other + c, load(other + c) + back);
        if (type) store(type + c, load(type + c) + back);
        if (att) store(att + c, load(att + c) + forth);
    }
    void add(int64_t c, T back, T forth) const {
        own[c] += back;
        if (other) other[c] += back;
        if (type) type[c] += back;
        if (att) att[c] += forth;
    }
    Grads from(int64_t c) const {
        return {own + c, other ? other + c : nullptr, att ? att + c : nullptr, type ? type + c : nullptr};
    }
};

// The ends get g a[c] LeakyReLU'(z), att gets g LeakyReLU(z). What they get may be one row: each is read after the
// other is written.
template <class T>
inline void pair_score_grad(int64_t C, T slope, const Tail<T>& tail, T g, const Ends<T>& ends, const T* a,
                            const Grads<T>& to) {
    constexpr int lanes = Simd<T>::lanes;
    const Vec<T> one = Vec<T>{} + g, less = Vec<T>{} + g * slope;
    if (C < lanes) {
        for (int64_t c = 0; c < C; c++) {
            const T z = ends.sum(c), step = (z > T(0) ? T(1) : slope) * g;
            to.add(c, a[c] * step, z * step);
        }
        return;
    }
    for (int64_t c = 0; c < tail.whole; c += lanes) {
        const Vec<T> z = ends.sums(c), step = z > T(0) ? one : less;
        to.add(c, load(a + c) * step, z * step);
    }
    if (tail.any()) {
        const Vec<T> z = ends.sums(tail.start), step = z > T(0) ? one : less;
        to.add(tail.start, tail.only(load(a + tail.start) * step), tail.only(z * step));
    }
}

}  // namespace mimogc

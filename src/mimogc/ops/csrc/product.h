// Products with the weights W [rows, columns] of a layer, for matrices whose W fits into the second cache.
//
// One tile of kRows x kPanel results stays in registers while the inner dimension is walked. W is packed once per call
// into panels of kPanel columns; the last panel is moved back to end at the last column, so that it overlaps the one
// before and writes the same values twice; where its second vector holds all that is new, it alone is computed. Both
// dimensions of W have to be at least kPanel.
#pragma once
#include <algorithm>

#include "simd.h"

namespace mimogc {

constexpr int kRows = 6;
template <class T>
constexpr int64_t kPanel = 2 * Simd<T>::lanes;

template <class T>
inline int64_t panels_of(int64_t columns) {
    return (columns + kPanel<T> - 1) / kPanel<T>;
}
template <class T>
inline int64_t panel_start(int64_t panel, int64_t columns) {
    return std::min(panel * kPanel<T>, columns - kPanel<T>);
}

// c[r, :] = Σ_k a[r, k] b[k, :] for R rows and V vectors of a panel, added to c with `add`. Entry (r, k) of a is at
// a[r * a_row + k * a_step], row k of b at b + k * b_step.
template <class T, int R, int V>
inline void product_tile(int64_t depth, const T* a, int64_t a_row, int64_t a_step, const T* b, int64_t b_step, bool add,
                         T* c, int64_t c_row) {
    constexpr int lanes = Simd<T>::lanes;
    Vec<T> sum[R][V] = {};
    const T* rows[R];
#pragma GCC unroll 6
    for (int r = 0; r < R; r++) {
        rows[r] = a + r * a_row;
    }
    for (int64_t k = 0; k < depth; k++) {
        Vec<T> own[V];
#pragma GCC unroll 2
        for (int v = 0; v < V; v++) own[v] = load(b + v * lanes);
        b += b_step;
#pragma GCC unroll 6
        for (int r = 0; r < R; r++) {
            const T value = rows[r][k * a_step];
#pragma GCC unroll 2
            for (int v = 0; v < V; v++) sum[r][v] += own[v] * value;
        }
    }
#pragma GCC unroll 6
    for (int r = 0; r < R; r++)
#pragma GCC unroll 2
        for (int v = 0; v < V; v++) {
            T* place = c + r * c_row + v * lanes;
            store(place, add ? load(place) + sum[r][v] : sum[r][v]);
        }
}

template <class T, int V, int R = kRows>
inline void product_vectors(int64_t rows, int64_t depth, const T* a, int64_t a_row, int64_t a_step, const T* b,
                            int64_t b_step, bool add, T* c, int64_t c_row) {
    if constexpr (R > 1) {
        if (rows < R) return product_vectors<T, V, R - 1>(rows, depth, a, a_row, a_step, b, b_step, add, c, c_row);
    }
    product_tile<T, R, V>(depth, a, a_row, a_step, b, b_step, add, c, c_row);
}

// The same for at most kRows rows and one panel, of which nothing but the last `fresh` columns may be wanted.
template <class T>
inline void product_rows(int64_t rows, int64_t depth, const T* a, int64_t a_row, int64_t a_step, const T* b,
                         int64_t b_step, bool add, T* c, int64_t c_row, int64_t fresh) {
    constexpr int lanes = Simd<T>::lanes;
    if (fresh <= lanes)
        product_vectors<T, 1>(rows, depth, a, a_row, a_step, b + lanes, b_step, add, c + lanes, c_row);
    else
        product_vectors<T, 2>(rows, depth, a, a_row, a_step, b, b_step, add, c, c_row);
}

// Panel p of Wᵀ: packed[k, :] = w[start .. start + kPanel, k].
template <class T>
inline void pack_transposed(int64_t p, int64_t rows, int64_t columns, const T* w, T* packed) {
    w += panel_start<T>(p, rows) * columns;
    for (int64_t k = 0; k < columns; k++)
        for (int64_t c = 0; c < kPanel<T>; c++) packed[k * kPanel<T> + c] = w[c * columns + k];
}

// Panel p of W: packed[k, :] = w[k, start .. start + kPanel].
template <class T>
inline void pack(int64_t p, int64_t rows, int64_t columns, const T* w, T* packed) {
    w += panel_start<T>(p, columns);
    for (int64_t k = 0; k < rows; k++)
        for (int64_t c = 0; c < kPanel<T>; c++) packed[k * kPanel<T> + c] = w[k * columns + c];
}

// out [rows, width] = a [rows, depth] times the packed panels [panels, depth, kPanel].
template <class T>
inline void times_packed(int64_t rows, int64_t depth, int64_t width, const T* a, const T* packed, T* out) {
    for (int64_t n = 0; n < rows; n += kRows)
        for (int64_t p = 0; p < panels_of<T>(width); p++)
            product_rows<T>(rows - n, depth, a + n * depth, depth, 1, packed + p * depth * kPanel<T>, kPanel<T>, false,
                            out + n * width + panel_start<T>(p, width), width, width - p * kPanel<T>);
}

// total [panels of width, depth, kPanel] += aᵀ b for a [rows, depth], b [rows, width].
template <class T>
inline void add_transposed_product(int64_t rows, int64_t depth, int64_t width, const T* a, const T* b, T* total) {
    for (int64_t p = 0; p < panels_of<T>(width); p++)
        for (int64_t f = 0; f < depth; f += kRows)
            product_rows<T>(depth - f, rows, a + f, 1, depth, b + panel_start<T>(p, width), width, true,
                            total + (p * depth + f) * kPanel<T>, kPanel<T>, width - p * kPanel<T>);
}

}  // namespace mimogc

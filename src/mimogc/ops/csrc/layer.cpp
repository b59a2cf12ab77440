// The paper's whole layer in one parallel region: transform, scores, sum, bias and activation; and all its gradients in
// another. Without x the products with W are the caller's.
#include <memory>

#include "mimogc.h"
#include "product.h"
#include "scores.h"
#include "tanh.h"

namespace mimogc {
namespace {

constexpr int64_t kBlock = 48;  // rows that go through all steps together, while they are in the first caches

// The gradient to the s of a row: the sum over all nodes that are this row.
template <class T>
void add_score_totals(int64_t num_src, int64_t num_dst, const int32_t* rowptr, const int32_t* parent, int64_t K,
                      const T* grad_score, T* grad_st) {
    for (int64_t j = 0; j < num_src; j++) std::fill_n(grad_st + j * 2 * K, K, T(0));
    for (int64_t i = 0; i < num_dst; i++) {
        T* total = grad_st + parent[i] * (2 * K);
        for (int64_t e = rowptr[i]; e < rowptr[i + 1]; e++)
            for (int64_t k = 0; k < K; k++) total[k] += grad_score[e * K + k];
    }
}

// In a product sixteen multiply-adds take as long as one with a gathered row.
int64_t work(int64_t N, int64_t E, int64_t F, int64_t width) { return (E + N * (1 + F / 16)) * width; }

template <class T>
std::unique_ptr<T[]> room(int64_t size) {
    return std::unique_ptr<T[]>(new T[size]);  // not set to zero, unlike a vector
}

template <class T>
void layer(int64_t num_src, int64_t num_dst, const int32_t* rowptr, const int32_t* col, const int32_t* parent,
           int64_t F, int64_t K, int64_t C, T slope, const T* x, const T* w, const T* att, const T* offset, const T* u,
           const T* bias, T* h, T* st, T* out, T* derivative, int threads) {
    const int64_t width = K * C, M = 2 * K, panels = x ? panels_of<T>(width) : 0, panel = F * kPanel<T>;
    threads = threads_for(work(num_src, rowptr[num_dst], x ? F : 0, width), threads);
    const auto packed = room<T>(panels * panel);
    in_team(threads, [&] {
#pragma omp for schedule(static)
        for (int64_t p = 0; p < panels; p++) pack_transposed<T>(p, width, F, w, packed.get() + p * panel);
#pragma omp for schedule(dynamic, 1)
        for (int64_t first = 0; first < num_src; first += kBlock) {
            const int64_t rows = std::min(kBlock, num_src - first);
            if (x) times_packed<T>(rows, F, width, x + first * F, packed.get(), h + first * width);
            scores_rows<T>(rows, width, M, slope, h + first * width, att, st + first * M);
            for (int64_t n = first; offset && n < first + rows; n++)
                for (int64_t k = 0; k < K; k++) st[n * M + k] += offset[k];
        }
        share_tanh_sum<T>(0, num_dst, rowptr, col, parent, K, C, kHeadsToSum, st, st + K, M, u, h, bias, out,
                          derivative, threads);
    });
}

// What one thread adds up for the parameters.
template <class T>
struct Totals {
    Totals(int64_t att_size, int64_t w_size, int64_t offset_size, int64_t bias_size)
        : att(att_size, T(0)), w(w_size, T(0)), offset(offset_size, 0.0), bias(bias_size, T(0)) {}
    std::vector<T> att, w;
    std::vector<double> offset;  // few sums of as many terms as there are edges, of both signs
    std::vector<T> bias;
};

// scaled = g, times the derivative of the activation where there is one; bias += its sum over the rows.
template <class T>
void activation_grad(int64_t rows, int64_t C, const T* g, const T* derivative, T* scaled, std::vector<T>& bias) {
    std::vector<T> sum(C, T(0));
    for (int64_t n = 0; n < rows; n++) {
        if (derivative) {
            for (int64_t c = 0; c < C; c++) scaled[n * C + c] = g[n * C + c] * derivative[n * C + c];
            for (int64_t c = 0; c < C; c++) sum[c] += scaled[n * C + c];
        } else {
            for (int64_t c = 0; c < C; c++) sum[c] += g[n * C + c];
        }
    }
    for (size_t c = 0; c < bias.size(); c++) bias[c] += sum[c];
}

template <class T>
void layer_grad(int64_t num_src, int64_t num_dst, const int32_t* colptr, const int32_t* row, const int32_t* edge,
                const int32_t* rowptr, const int32_t* parent, int64_t F, int64_t K, int64_t C, T slope, const T* x,
                const T* w, const T* h, const T* att, const T* u, const T* st, const T* g, const T* derivative,
                T* grad_score, T* grad_h, T* grad_x, T* grad_w, T* grad_att, T* grad_offset, T* grad_bias,
                int threads) {
    const int64_t width = K * C, M = 2 * K, E = colptr[num_src];
    const int64_t x_panels = grad_x ? panels_of<T>(F) : 0, x_panel = width * kPanel<T>;
    const int64_t w_panels = grad_w ? panels_of<T>(width) : 0, w_panel = F * kPanel<T>;
    threads = threads_for(2 * work(num_src, E, x ? F : 0, width), threads);
    // Without grad_h its rows are made block by block, of α in the order by source, where they are needed.
    const auto packed = room<T>(x_panels * x_panel), alpha = room<T>(grad_h ? 0 : E * K);
    const auto scaled = room<T>(derivative ? num_dst * C : 0), grad_st = room<T>(num_src * M);
    const auto own_score = room<T>(grad_score ? 0 : E * K);
    if (!grad_score) grad_score = own_score.get();
    std::vector<Totals<T>> totals(threads, Totals<T>(M * width, w_panels * w_panel, K, grad_bias ? C : 0));
    const T* own_g = derivative ? scaled.get() : g;
    in_team(threads, [&] {
#pragma omp for schedule(static) nowait
        for (int64_t p = 0; p < x_panels; p++) pack<T>(p, width, F, w, packed.get() + p * x_panel);
#pragma omp for schedule(static, 1)
        for (int part = 0; part < threads; part++) {
            const int64_t end = num_dst * (part + 1) / threads;
            for (int64_t first = num_dst * part / threads; first < end; first += kBlock)
                activation_grad<T>(std::min(kBlock, end - first), C, g + first * C,
                                   derivative ? derivative + first * C : nullptr,
                                   derivative ? scaled.get() + first * C : nullptr, totals[part].bias);
        }
        share_rows<T>(colptr, num_src, threads, [&](int64_t j, std::vector<T>& scratch) {
            const Neighbours nb =
                source_grad<T>(j, colptr, E, row, edge, parent, K, C, st, st + K, M, u, own_g, h,
                               grad_h ? grad_h + j * width : nullptr, grad_st.get() + j * M + K, grad_score, scratch);
            if (!grad_h) std::copy_n(scratch.data(), nb.count * K, alpha.get() + colptr[j] * K);
        });
        if (parent) {
#pragma omp single
            add_score_totals<T>(num_src, num_dst, rowptr, parent, K, grad_score, grad_st.get());
        }
#pragma omp for schedule(static, 1)
        for (int part = 0; part < threads; part++) {
            const auto own = room<T>(grad_h ? 0 : kBlock * width);
            const int64_t cost = 4 + F / 4, end = first_row(colptr, num_src, part + 1, threads, cost);
            for (int64_t first = first_row(colptr, num_src, part, threads, cost); first < end; first += kBlock) {
                const int64_t rows = std::min(kBlock, end - first);
                T* block = grad_h ? grad_h + first * width : own.get();
                for (int64_t j = first; j < first + rows; j++) {
                    const Neighbours nb = {row + colptr[j], colptr[j + 1] - colptr[j], E - colptr[j]};
                    if (!grad_h)
                        sum_to_heads(nb, K, C, alpha.get() + colptr[j] * K, own_g, block + (j - first) * width);
                    if (!parent) score_totals<T>(rowptr[j], rowptr[j + 1], K, grad_score, grad_st.get() + j * M);
                }
                for (int64_t j = first; grad_offset && j < first + rows; j++)
                    for (int64_t k = 0; k < K; k++) totals[part].offset[k] += grad_st[j * M + k];
                scores_grad_rows<T>(rows, width, M, slope, h + first * width, att, grad_st.get() + first * M, block,
                                    totals[part].att.data());
                if (grad_x) times_packed<T>(rows, width, F, block, packed.get(), grad_x + first * F);
                if (grad_w) add_transposed_product<T>(rows, F, width, x + first * F, block, totals[part].w.data());
            }
        }
#pragma omp for schedule(static) nowait
        for (int64_t p = 0; p < w_panels; p++) {
            const int64_t start = panel_start<T>(p, width);
            for (int64_t q = p * kPanel<T>; q < std::min((p + 1) * kPanel<T>, width); q++)
                for (int64_t f = 0; f < F; f++) {
                    T sum = 0;
                    for (int part = 0; part < threads; part++)
                        sum += totals[part].w[p * w_panel + f * kPanel<T> + q - start];
                    grad_w[q * F + f] = sum;
                }
        }
#pragma omp for schedule(static)
        for (int64_t q = 0; q < M * width; q++) {
            T sum = 0;
            for (int part = 0; part < threads; part++) sum += totals[part].att[q];
            grad_att[q] = sum;
        }
    });
    for (int64_t k = 0; grad_offset && k < K; k++) {
        double sum = 0;
        for (int part = 0; part < threads; part++) sum += totals[part].offset[k];
        grad_offset[k] = T(sum);
    }
    for (int64_t c = 0; grad_bias && c < C; c++) {
        grad_bias[c] = 0;
        for (int part = 0; part < threads; part++) grad_bias[c] += totals[part].bias[c];
    }
}

}  // namespace
}  // namespace mimogc

#define MIMOGC_DEFINE(T, S)                                                                                            \
    void mimogc_layer_##S(int64_t num_src, int64_t num_dst, const int32_t* rowptr, const int32_t* col,                 \
                          const int32_t* parent, int64_t F, int64_t K, int64_t C, T slope, const T* x, const T* w,     \
                          const T* att, const T* offset, const T* u, const T* bias, T* h, T* st, T* out,               \
                          T* derivative, int32_t threads) {                                                            \
        mimogc::layer<T>(num_src, num_dst, rowptr, col, parent, F, K, C, slope, x, w, att, offset, u, bias, h, st,     \
                         out, derivative, threads);                                                                    \
    }                                                                                                                  \
    void mimogc_layer_grad_##S(int64_t num_src, int64_t num_dst, const int32_t* colptr, const int32_t* row,            \
                               const int32_t* edge, const int32_t* rowptr, const int32_t* parent, int64_t F,           \
                               int64_t K, int64_t C, T slope, const T* x, const T* w, const T* h, const T* att,        \
                               const T* u, const T* st, const T* g, const T* derivative, T* grad_score, T* grad_h,     \
                               T* grad_x, T* grad_w, T* grad_att, T* grad_offset, T* grad_bias, int32_t threads) {     \
        mimogc::layer_grad<T>(num_src, num_dst, colptr, row, edge, rowptr, parent, F, K, C, slope, x, w, h, att, u,    \
                              st, g, derivative, grad_score, grad_h, grad_x, grad_w, grad_att, grad_offset, grad_bias, \
                              threads);                                                                                \
    }
MIMOGC_DEFINE(float, f32)
MIMOGC_DEFINE(double, f64)

// What the threads add up for the parameters of a layer in its gradients.
#pragma once
#include <algorithm>
#include <vector>

#include "pages.h"
#include "product.h"

namespace mimogc {

constexpr int64_t kBlock = 48;  // rows that go through all steps together, while they are in the first caches

// What one thread adds up for the parameters, and its room for a block of gradients to h.
template <class T>
struct Totals {
    Totals(int64_t att_size, int64_t weight_size, int64_t offset_size, int64_t bias_size, int64_t block_size)
        : att(att_size, T(0)),
          weight(weight_size, T(0)),
          offset(offset_size, 0.0),
          bias(bias_size, T(0)),
          of_block(bias_size),
          block(block_size) {}
    std::vector<T> att, weight;
    std::vector<double> offset;  // few sums of as many terms as there are edges, of both signs
    std::vector<T> bias, of_block, block;
};

// scaled = g, times the derivative of the activation where there is one; the bias gets its sum over the rows.
template <class T>
void activation_grad(int64_t rows, int64_t C, const T* g, const T* derivative, T* scaled, Totals<T>& totals) {
    if (derivative)
        for (int64_t q = 0; q < rows * C; q++) scaled[q] = g[q] * derivative[q];
    if (totals.bias.empty()) return;
    T* sum = totals.of_block.data();
    std::fill_n(sum, C, T(0));
    for (int64_t n = 0; n < rows; n++)
        for (int64_t c = 0; c < C; c++) sum[c] += derivative ? scaled[n * C + c] : g[n * C + c];
    for (int64_t c = 0; c < C; c++) totals.bias[c] += sum[c];
}

// Called by all threads: the same for all rows, each thread its own.
template <class T>
void share_activation_grad(int64_t num_dst, int64_t C, const T* g, const T* derivative, T* scaled,
                           std::vector<Totals<T>>& totals) {
    const int threads = int(totals.size());
#pragma omp for schedule(static, 1)
    for (int part = 0; part < threads; part++) {
        const int64_t end = num_dst * (part + 1) / threads;
        for (int64_t first = num_dst * part / threads; first < end; first += kBlock)
            activation_grad<T>(std::min(kBlock, end - first), C, g + first * C,
                               derivative ? derivative + first * C : nullptr, derivative ? scaled + first * C : nullptr,
                               totals[part]);
    }
}

// Called by all threads: grad_weight, grad_att are the sums over the threads' totals.
template <class T>
void add_totals(const std::vector<Totals<T>>& totals, int64_t F, int64_t width, T* grad_weight, T* grad_att) {
    const int64_t panels = grad_weight ? panels_of<T>(width) : 0, att_size = int64_t(totals[0].att.size());
#pragma omp for schedule(static) nowait
    for (int64_t p = 0; p < panels; p++) {
        const int64_t start = panel_start<T>(p, width);
        for (int64_t q = p * kPanel<T>; q < std::min((p + 1) * kPanel<T>, width); q++)
            for (int64_t f = 0; f < F; f++) {
                T sum = 0;
                for (const Totals<T>& own : totals) sum += own.weight[(p * F + f) * kPanel<T> + q - start];
                grad_weight[q * F + f] = sum;
            }
    }
#pragma omp for schedule(static)
    for (int64_t q = 0; q < att_size; q++) {
        T sum = 0;
        for (const Totals<T>& own : totals) sum += own.att[q];
        grad_att[q] = sum;
    }
}

// The sums over the threads for offset and bias, where these are asked for.
template <class T>
void add_small_totals(const std::vector<Totals<T>>& totals, int64_t K, int64_t C, T* grad_offset, T* grad_bias) {
    for (int64_t k = 0; grad_offset && k < K; k++) {
        double sum = 0;
        for (const Totals<T>& own : totals) sum += own.offset[k];
        grad_offset[k] = T(sum);
    }
    for (int64_t c = 0; grad_bias && c < C; c++) {
        grad_bias[c] = 0;
        for (const Totals<T>& own : totals) grad_bias[c] += own.bias[c];
    }
}

}  // namespace mimogc

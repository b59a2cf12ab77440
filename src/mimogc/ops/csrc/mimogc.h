// The C interface of the kernels: plain functions on raw pointers, called from Python through ctypes.
//
// Names: N nodes, E edges, K computational graphs, C channels, all arrays dense and row-major. A graph comes twice,
// by destination (CSR: rowptr, col) and by source (CSC: colptr, row), with `edge`, the CSR position of each CSC place.
// Every function exists for float (suffix _f32) and double (_f64). `threads` is an upper bound; one thread enters
// no parallel region. Results do not depend on scheduling, only on the number of threads.
#pragma once
#include <cstdint>

#define MIMOGC_API extern "C" __attribute__((visibility("default")))

// What a row of gathered features looks like, and what becomes of the K graphs.
enum MimogcShape : int32_t {
    kHeadsToSum = 0,     // h [N, K, C] → out [N, C]:    out_i   = Σ_k Σ_j α_k(i,j) h_k(j)
    kSharedToHeads = 1,  // h [N, C]    → out [N, K, C]: out_ik  = Σ_j α_k(i,j) h(j)
    kHeadsToHeads = 2,   // h [N, K, C] → out [N, K, C]: out_ik  = Σ_j α_k(i,j) h_k(j)
};

// The SHA-256 of this file when the library was compiled.
MIMOGC_API const char* mimogc_interface();

// Counting sort of src → dst into CSR and CSC. `out` holds rowptr, colptr, col, position, row, edge, one behind the
// other. Returns the number of edges, or -1 - e where edge e has an index out of range.
MIMOGC_API int64_t mimogc_sort_edges(const int64_t* src, const int64_t* dst, int64_t num_edges, int64_t num_src,
                                     int64_t num_dst, int32_t replace_loops, int32_t* out);

// What layers do to nodes of which many are alike. Node i begins as row index[i] < num_rows; nodes that are alike and
// have neighbours that are alike stay so in a layer. For each layer, the graph from the classes before it to those
// after it goes to `out`, all arrays one behind the other: parent, the row of each class; rowptr, colptr, col, row,
// edge. The last graph is to all nodes: that of the last of `layers`, or the first with more than `most` rows. `sizes`
// gets the numbers of classes and edges of each graph. Returns the number of graphs, or -1 - i where index[i] is out of
// range.
MIMOGC_API int64_t mimogc_classes(int64_t N, const int32_t* rowptr, const int32_t* col, int64_t num_rows,
                                  const int64_t* index, int64_t layers, int64_t most, int64_t* sizes, int32_t* out);

#define MIMOGC_DECLARE(T, S)                                                                                           \
    /* out = Σ α h over the neighbours of each row; α in CSR order, reached through `edge` where that is not null. */  \
    MIMOGC_API void mimogc_sum_##S(int64_t rows, const int32_t* ptr, const int32_t* neighbour, const int32_t* edge,    \
                                   int64_t K, int64_t C, int32_t shape, const T* alpha, const T* h, T* out,            \
                                   int32_t threads);                                                                   \
    /* out[e, k] = ⟨g_i, h_k(j)⟩ for every edge e: j → i; g is [N, C], or [N, K, C] with kHeadsToHeads. */             \
    MIMOGC_API void mimogc_dot_##S(int64_t num_src, const int32_t* colptr, const int32_t* row, const int32_t* edge,    \
                                   int64_t K, int64_t C, int32_t shape, const T* g, const T* h, T* out,                \
                                   int32_t threads);                                                                   \
    /* Both gradients of mimogc_sum in one pass over the sources: grad_h and grad_alpha from g. */                     \
    MIMOGC_API void mimogc_sum_grad_##S(int64_t num_src, const int32_t* colptr, const int32_t* row,                    \
                                        const int32_t* edge, int64_t K, int64_t C, int32_t shape, const T* alpha,      \
                                        const T* g, const T* h, T* grad_h, T* grad_alpha, int32_t threads);            \
    /* Rows first .. first + rows of mimogc_sum with α = tanh(s_i + t_j + u_e). s and t have row stride `stride`;     \
       u [E, K] may be null. kHeadsToSum writes out [N, C], kSharedToHeads out [rows, K, C]. */                        \
    MIMOGC_API void mimogc_tanh_sum_##S(int64_t first, int64_t rows, const int32_t* rowptr, const int32_t* col,        \
                                        int64_t K, int64_t C, int32_t shape, const T* s, const T* t, int64_t stride,   \
                                        const T* u, const T* h, T* out, int32_t threads);                              \
    /* Its gradients (shape kHeadsToSum) from g [N, C]; grad_score [E, K] is that of s_i + t_j + u_e. */               \
    MIMOGC_API void mimogc_tanh_sum_grad_##S(                                                                          \
        int64_t num_src, int64_t num_dst, const int32_t* colptr, const int32_t* row, const int32_t* edge,              \
        const int32_t* rowptr, int64_t K, int64_t C, const T* s, const T* t, int64_t stride, const T* u, const T* g,   \
        const T* h, T* grad_h, T* grad_s, T* grad_t, T* grad_score, int32_t threads);                                  \
    /* out[n, m] = Σ_q LeakyReLU(h[n, q]) v[m, q] for m < M. */                                                        \
    MIMOGC_API void mimogc_scores_##S(int64_t N, int64_t width, int64_t M, T slope, const T* h, const T* v, T* out,    \
                                      int32_t threads);                                                                \
    /* The paper's layer from num_src rows to num_dst: h [num_src, K, C] = x w' from x [num_src, F] and w [KC, F], */  \
    /* where x is not null; else h is given. Then st [num_src, 2K], the scores with att [2K, KC], offset [K] added */  \
    /* to the first K, and mimogc_tanh_sum plus bias [C]; offset, u and bias may be null. The score s of target i */   \
    /* is that of row parent[i], */                                                                                    \
    /* or of row i without parent. With derivative [num_dst, C], out is GELU of that and derivative its slope. */      \
    /* With x, F and KC are at least 32. */                                                                            \
    MIMOGC_API void mimogc_layer_##S(int64_t num_src, int64_t num_dst, const int32_t* rowptr, const int32_t* col,      \
                                     const int32_t* parent, int64_t F, int64_t K, int64_t C, T slope, const T* x,      \
                                     const T* w, const T* att, const T* offset, const T* u, const T* bias, T* h,       \
                                     T* st, T* out, T* derivative, int32_t threads);                                   \
    /* Its gradients from g [num_dst, C]; grad_score [E, K] is that to u. grad_score, grad_h (that to h), grad_x, */   \
    /* grad_w, grad_offset and grad_bias may be null; without x grad_x and grad_w are. */                              \
    MIMOGC_API void mimogc_layer_grad_##S(                                                                             \
        int64_t num_src, int64_t num_dst, const int32_t* colptr, const int32_t* row, const int32_t* edge,              \
        const int32_t* rowptr, const int32_t* parent, int64_t F, int64_t K, int64_t C, T slope, const T* x,            \
        const T* w, const T* h, const T* att, const T* u, const T* st, const T* g, const T* derivative, T* grad_score, \
        T* grad_h, T* grad_x, T* grad_w, T* grad_att, T* grad_offset, T* grad_bias, int32_t threads);                  \
    /* out[e, k] = Σ_c a[k, c] LeakyReLU(p_k(j) + q_k(i))[c] for every edge e: j → i; p, q [N, K, C], a [K, C]. */     \
    MIMOGC_API void mimogc_pair_scores_##S(int64_t rows, const int32_t* rowptr, const int32_t* col, int64_t K,         \
                                           int64_t C, T slope, const T* p, const T* q, const T* a, T* out,             \
                                           int32_t threads);                                                           \
    /* Its gradients from g [E, K]. */                                                                                 \
    MIMOGC_API void mimogc_pair_scores_grad_##S(                                                                       \
        int64_t num_src, int64_t num_dst, const int32_t* rowptr, const int32_t* col, const int32_t* colptr,            \
        const int32_t* row, const int32_t* edge, int64_t K, int64_t C, T slope, const T* p, const T* q, const T* a,    \
        const T* g, T* grad_p, T* grad_q, T* grad_a, int32_t threads);                                                 \
    /* out [B] = v GELU(w p + bias) + offset, with p [C] the sum of the rows of h [N, C] that a graph owns; */         \
    /* w is [H, C], v [H]. pooled [B, C], hidden and derivative [B, H] are for the gradients. */                       \
    /* Returns N, or -1 - n where row n has no owner. */                                                               \
    MIMOGC_API int64_t mimogc_readout_##S(int64_t N, int64_t B, int64_t C, int64_t H, const T* h,                      \
                                          const int64_t* owner, const T* w, const T* bias, const T* v,                 \
                                          const T* offset, T* pooled, T* hidden, T* derivative, T* out);               \
    /* Its gradients from g [B]. */                                                                                    \
    MIMOGC_API void mimogc_readout_grad_##S(int64_t N, int64_t B, int64_t C, int64_t H, const int64_t* owner,          \
                                            const T* w, const T* v, const T* pooled, const T* hidden,                  \
                                            const T* derivative, const T* g, T* grad_h, T* grad_w, T* grad_bias,       \
                                            T* grad_v, T* grad_offset);                                                \
    /* Step `step` of Adam, counted from 1, with gradients scaled to a norm of at most clip. weight, mean and */       \
    /* square are vectors of all `count` tensors, one behind the other; gradients has the places of theirs, null */    \
    /* where it is zero. */                                                                                            \
    MIMOGC_API void mimogc_adam_##S(int64_t count, const int64_t* sizes, const T* const* gradients, double clip,       \
                                    double lr, double beta1, double beta2, double eps, int64_t step, T* weight,        \
                                    T* mean, T* square, int32_t threads);

MIMOGC_DECLARE(float, f32)
MIMOGC_DECLARE(double, f64)
#undef MIMOGC_DECLARE

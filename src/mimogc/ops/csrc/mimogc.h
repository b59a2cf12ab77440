// The C interface of the kernels, written here and nowhere else: Python reads this file, too (cffi, without a
// compiler). So it is plain C, one pointer per declaration, and lines that begin with # are for the C++ compiler alone.
//
// Names: K computational graphs, C channels of each, F features; all arrays dense and row-major. An array of numbers is
// a pointer to void: `bytes` of MimogcSizes says whether they are float or double. Results do not depend on scheduling,
// only on the number of threads; one thread enters no parallel region. What a function returns is negative where it did
// not do its work: MIMOGC_NO_MEMORY, or what its comment says.
#pragma once
#include <stdint.h>
#pragma GCC visibility push(default)

// A graph by destination (CSR: rowptr, sources) and by source (CSC: colptr, targets). Numbers of edges are in the order
// by destination.
typedef struct {
    int64_t num_src;
    int64_t num_dst;
    int64_t num_edges;
    const int32_t* rowptr;   // [num_dst + 1] the edges into node i are rowptr[i] .. rowptr[i + 1]
    const int32_t* sources;  // [num_edges] the source of each edge
    const int32_t* colptr;   // [num_src + 1] the edges out of node j are colptr[j] .. colptr[j + 1]
    const int32_t* targets;  // [num_edges] the destination of each edge, in the order by source
    const int32_t* slot;     // [num_edges] where each edge of the order by source is in the order by destination
    const int32_t* parent;   // [num_dst] the source that each target is one of; null: the one of the same number, of
                             // which there are at least as many
} MimogcGraph;

// What a row of gathered features looks like, and what becomes of the K graphs.
enum MimogcShape {
    MIMOGC_HEADS_TO_SUM = 0,     // h [N, K, C] → out [N, C]:    out_i   = Σ_k Σ_j α_k(i,j) h_k(j)
    MIMOGC_SHARED_TO_HEADS = 1,  // h [N, C]    → out [N, K, C]: out_ik  = Σ_j α_k(i,j) h(j)
    MIMOGC_HEADS_TO_HEADS = 2    // h [N, K, C] → out [N, K, C]: out_ik  = Σ_j α_k(i,j) h_k(j)
};

typedef struct {
    int32_t bytes;    // of a number: 4 or 8
    int32_t threads;  // at most so many are used
    int32_t shape;    // a MimogcShape, of the functions that mention one
    int64_t K;
    int64_t C;
    int64_t F;
    double slope;  // of LeakyReLU
} MimogcSizes;

// α_k(i,j) = tanh(s_k(i) + t_k(j) + edge_k(i,j)).
typedef struct {
    const void* s;     // [num_dst, K] with row stride `stride`
    const void* t;     // [num_src, K] with row stride `stride`
    const void* edge;  // [num_edges, K] or null
    int64_t stride;
} MimogcScores;

// What scores of pairs are made of.
typedef struct {
    const void* source;    // [num_src, K, C]
    const void* target;    // [num_dst, K, C]; where the graph has parents [num_src, K, C]
    const void* att;       // [K, C]
    const void* table;     // [types, K, C], of which an edge adds the row of its type, or null
    const int64_t* kinds;  // [num_edges] the types of the edges, where there is a table
    int64_t types;
    // Not of the scores alone: mimogc_attention writes the sum of α over the edges of each type into each node, which
    // their messages, the caller's, need; mimogc_attention_grad reads the gradient to that.
    void* received;  // [num_dst, types, K] or null
} MimogcPairs;

// What is learnt of the paper's layer, and the score terms of the edges.
typedef struct {
    const void* weight;  // [K·C, F]
    const void* att;     // [2K, K·C]: for the scores of the targets, then of the sources
    const void* offset;  // [K] or null, added to the scores
    const void* edge;    // [num_edges, K] or null; with `kinds` [types, K], and so is the gradient to it
    const void* bias;    // [C] or null
    // What mimogc_layer alone knows: the types of edges. It writes to `received` the sum of α over the edges of each
    // type into each node, which their messages, the caller's, need; mimogc_layer_grad reads the gradient to that from
    // it.
    const int64_t* kinds;  // [num_edges] the type of each edge, or null
    int64_t types;
    void* received;  // [num_dst, types, K]
    // If `scaled`, the scores are those of x and not of h, with att [2K, F], and α is multiplied by the scale of both
    // ends; no rows have parents then, and the gradient to x is always asked for.
    int64_t scaled;
    const void* scale;  // [num_src], or null if not `scaled` or where there are no nodes
} MimogcWeights;

// Where the gradients of a layer go; all but that to att may be null.
typedef struct {
    void* x;
    void* h;
    void* weight;
    void* att;
    void* offset;
    void* edge;
    void* bias;
} MimogcGradients;

// What GIN's layer is made of: last ReLU(first z + first_bias) + last_bias with z_i = own · x_i + Σ_j x_j.
typedef struct {
    const void* first;       // [C, F]
    const void* first_bias;  // [C]
    const void* last;        // [C, C]
    const void* last_bias;   // [C]
    double own;
} MimogcMlp;

typedef struct {
    void* first;
    void* first_bias;
    void* last;
    void* last_bias;
} MimogcMlpGradients;

// What comes between a layer and the next: out = given + gain · branch, and top = the larger of `best` and out. Row i
// of the branch belongs to row parent[i] of `given` and `best`, or to row i.
typedef struct {
    int64_t rows;    // of the branch, each of C numbers
    int64_t before;  // of `given` and `best`
    double gain;
    const int32_t* parent;  // [rows] or null
    const void* given;      // [before, C]; null: out is the branch
    const void* best;       // [before, C]; null: no maximum is taken
    void* chosen;           // [rows, C] bytes: whether out is at least as large as `best`, where there is one
} MimogcJoin;

// What is returned where there is not enough memory, or 0.
static const int64_t MIMOGC_NO_MEMORY = -9223372036854775807;

// The SHA-256 of this file when the library was compiled.
const char* mimogc_interface(void);

// Counting sort of src → dst, both [num_edges], of int32 or int64 as `bytes` says. `out` holds rowptr, colptr, sources,
// position (where each edge was given, -1 for an added loop), targets, slot, one behind the other, the last four with
// room for all edges and added loops. Returns the number of edges, or -1 - e where edge e has an index out of range.
int64_t mimogc_sort_edges(const void* src, const void* dst, int32_t bytes, int64_t num_edges, int64_t num_src,
                          int64_t num_dst, int32_t replace_loops, int32_t threads, int32_t* out);

// The same graph with one loop more at every node, behind those that it has or, with `replace`, in their place.
// position [num_edges] is that of the graph. `out` as above; returns the number of edges.
int64_t mimogc_add_loops(const MimogcGraph* graph, const int32_t* position, int32_t replace, int32_t threads,
                         int32_t* out);

// Whether the arrays are those of one sorted graph, so that no kernel reads or writes beyond them. Returns 0, or what
// is wrong first: -1 rowptr, -2 sources, -3 colptr, -4 targets, -5 slot.
int64_t mimogc_check(const MimogcGraph* graph, int32_t threads);

// Asks for huge pages for `bytes` at `start`, which nothing has been written to yet; where there are none, nothing.
int64_t mimogc_huge_pages(void* start, int64_t bytes);

// What layers do to nodes of which many are alike. Node i begins as row rows[i] < num_rows; nodes that are alike and
// have neighbours that are alike stay so in a layer. For each layer, `found` gets the graph from the classes before it
// to those after it, with its arrays in `room`. The last graph is to all nodes: that of the last of `layers`, or the
// first from more than `most` rows. `room` is for `layers` graphs, one if most < 0, each of 2 num_nodes + 2 + 3
// num_edges + max(num_nodes, num_rows) numbers. Returns the number of graphs, or -1 - i where rows[i] is out of range.
int64_t mimogc_classes(const MimogcGraph* graph, int64_t num_rows, const int64_t* rows, int64_t layers, int64_t most,
                       MimogcGraph* found, int32_t* room);

// out = Σ α h over the edges into each node, or with `transposed` out of each; alpha [num_edges, K].
int64_t mimogc_sum(const MimogcGraph* graph, const MimogcSizes* sizes, int32_t transposed, const void* alpha,
                   const void* h, void* out);

// out[e, k] = ⟨g_i, h_k(j)⟩ for every edge e: j → i; g is [num_dst, C], or [num_dst, K, C] with HEADS_TO_HEADS.
int64_t mimogc_dot(const MimogcGraph* graph, const MimogcSizes* sizes, const void* g, const void* h, void* out);

// Both gradients of mimogc_sum, not transposed, from g in one pass over the sources.
int64_t mimogc_sum_grad(const MimogcGraph* graph, const MimogcSizes* sizes, const void* alpha, const void* h,
                        const void* g, void* grad_alpha, void* grad_h);

// Rows first .. first + rows of mimogc_sum with α of the scores. HEADS_TO_SUM writes these rows of out [num_dst, C],
// SHARED_TO_HEADS writes out [rows, K, C].
int64_t mimogc_tanh_sum(const MimogcGraph* graph, const MimogcSizes* sizes, const MimogcScores* scores, int64_t first,
                        int64_t rows, const void* h, void* out);

// Its gradients for all rows with HEADS_TO_SUM from g [num_dst, C]; grad_edge [num_edges, K] is always written.
int64_t mimogc_tanh_sum_grad(const MimogcGraph* graph, const MimogcSizes* sizes, const MimogcScores* scores,
                             const void* h, const void* g, void* grad_s, void* grad_t, void* grad_h, void* grad_edge);

// out[e, k] = Σ_c att[k, c] LeakyReLU(source_k(j) + target_k(i) + table_k(kind of e))[c] for every edge e: j → i.
int64_t mimogc_pair_scores(const MimogcGraph* graph, const MimogcSizes* sizes, const MimogcPairs* pairs, void* out);

// Its gradients from g [num_edges, K]; those to source and target may be one array, which gets their sum.
int64_t mimogc_pair_scores_grad(const MimogcGraph* graph, const MimogcSizes* sizes, const MimogcPairs* pairs,
                                const void* g, void* grad_source, void* grad_target, void* grad_att);

// α = softmax over the edges into each node of the scores of pairs, and out_i = Σ_k Σ_j α_k(i,j) source_k(j) + bias;
// alpha [num_edges, K], bias [C] or null, out [num_dst, C]. Where the graph has parents, the target of node i is row
// parent[i].
int64_t mimogc_attention(const MimogcGraph* graph, const MimogcSizes* sizes, const MimogcPairs* pairs, const void* bias,
                         void* alpha, void* out);

// Its gradients from g [num_dst, C], as those of mimogc_pair_scores; that to the table may be null.
int64_t mimogc_attention_grad(const MimogcGraph* graph, const MimogcSizes* sizes, const MimogcPairs* pairs,
                              const void* alpha, const void* g, void* grad_source, void* grad_target, void* grad_att,
                              void* grad_table);

// The paper's layer from num_src rows to num_dst. Where x [num_src, F] is not null, h [num_src, K·C] = x weightᵀ is
// computed, with F and K·C at least 32; else it is given. Then st [num_src, 2K], the scores of the targets with the
// offset added and those of the sources; then out [num_dst, C], the sum of mimogc_tanh_sum plus bias. Where derivative
// [num_dst, C] is not null, out is GELU of that and derivative the slope of GELU there.
int64_t mimogc_layer(const MimogcGraph* graph, const MimogcSizes* sizes, const MimogcWeights* weights, const void* x,
                     void* h, void* st, void* out, void* derivative);

// Its gradients from g [num_dst, C]. Without x those to x and weight are not computed, and that to h has to be.
int64_t mimogc_layer_grad(const MimogcGraph* graph, const MimogcSizes* sizes, const MimogcWeights* weights,
                          const void* x, const void* h, const void* st, const void* derivative, const void* g,
                          const MimogcGradients* gradients);

// The same layer for graphs whose h is larger than the caches, with F and C at least 32: rows of x are gathered, and h
// is not given out.
int64_t mimogc_narrow_layer(const MimogcGraph* graph, const MimogcSizes* sizes, const MimogcWeights* weights,
                            const void* x, void* st, void* out, void* derivative);

// Its gradients; that to h is not given out.
int64_t mimogc_narrow_layer_grad(const MimogcGraph* graph, const MimogcSizes* sizes, const MimogcWeights* weights,
                                 const void* x, const void* st, const void* derivative, const void* g,
                                 const MimogcGradients* gradients);

// h [rows, K·C] = x weightᵀ from x [rows, F] and weight [K·C, F], with F and K·C at least 32.
int64_t mimogc_linear(const MimogcSizes* sizes, int64_t rows, const void* x, const void* weight, void* h);

// Its gradients from g [rows, K·C]; either may be null.
int64_t mimogc_linear_grad(const MimogcSizes* sizes, int64_t rows, const void* x, const void* weight, const void* g,
                           void* grad_x, void* grad_weight);

// GIN's layer from x [num_src, F] to out [num_dst, C], with F and C at least 32; z [num_dst, F] and h [num_dst, C],
// what is rectified, are for the gradients.
int64_t mimogc_gin(const MimogcGraph* graph, const MimogcSizes* sizes, const MimogcMlp* mlp, const void* x, void* z,
                   void* h, void* out);

// Its gradients from g [num_dst, C]; that to x may be null.
int64_t mimogc_gin_grad(const MimogcGraph* graph, const MimogcSizes* sizes, const MimogcMlp* mlp, const void* z,
                        const void* h, const void* g, void* grad_x, const MimogcMlpGradients* gradients);

// α = softmax of the scores [num_edges, K] over the edges into each node.
int64_t mimogc_softmax(const MimogcGraph* graph, const MimogcSizes* sizes, const void* scores, void* alpha);

// The gradient to the scores from α and g, both [num_edges, K].
int64_t mimogc_softmax_grad(const MimogcGraph* graph, const MimogcSizes* sizes, const void* alpha, const void* g,
                            void* grad);

// The branch is y [rows, C], or where derivative [rows, C] is not null GELU of it, and derivative the slope of GELU.
// out may be y; top [rows, C] is written where there is a `best`.
int64_t mimogc_join(const MimogcSizes* sizes, const MimogcJoin* join, const void* y, void* derivative, void* out,
                    void* top);

// Its gradients from those to out and to top, of which one may be null: to y, and to `given` and `best` where these
// are.
int64_t mimogc_join_grad(const MimogcSizes* sizes, const MimogcJoin* join, const void* derivative, const void* g_out,
                         const void* g_top, void* grad_y, void* grad_given, void* grad_best);

#pragma GCC visibility pop

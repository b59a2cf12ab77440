// Colour refinement (Weisfeiler and Leman): a layer gives nodes of one colour with the same colours around them the
// same features, so each such class is computed once.
#include <algorithm>
#include <vector>

#include "mimogc.h"

namespace mimogc {
namespace {

// 128 bits, as good as random, that stand for a colour; those of a node and of its neighbours are added, and classes
// told apart by the sum. Two that differ agree with a probability of about 2⁻¹²⁸.
struct Mark {
    uint64_t low, high;
    void add(const Mark& other) { low += other.low, high += other.high; }
    bool operator==(const Mark& other) const { return low == other.low && high == other.high; }
};

// SplitMix64, a generator whose n-th number can be had at once.
inline uint64_t random_bits(uint64_t n) {
    n *= 0x9e3779b97f4a7c15u;
    n = (n ^ (n >> 30)) * 0xbf58476d1ce4e5b9u;
    n = (n ^ (n >> 27)) * 0x94d049bb133111ebu;
    return n ^ (n >> 31);
}

struct Graph {
    int64_t N;
    const int32_t *rowptr, *col;
};

// Turns the colours of the nodes, each less than `colours`, into their classes. Gives the first node of each class.
std::vector<int32_t> refine(const Graph& graph, int64_t colours, std::vector<int32_t>& colour) {
    std::vector<Mark> own(colours), around(colours), known;
    for (uint64_t c = 0; c < uint64_t(colours); c++) {
        own[c] = {random_bits(4 * c + 1), random_bits(4 * c + 2)};
        around[c] = {random_bits(4 * c + 3), random_bits(4 * c + 4)};
    }
    size_t size = 16;
    while (size < 2 * size_t(graph.N)) size *= 2;
    std::vector<int32_t> table(size, -1), first, classes(graph.N);
    for (int64_t i = 0; i < graph.N; i++) {
        Mark mark = own[colour[i]];
        for (int32_t e = graph.rowptr[i]; e < graph.rowptr[i + 1]; e++) mark.add(around[colour[graph.col[e]]]);
        size_t place = mark.low & (size - 1);
        while (table[place] >= 0 && !(known[table[place]] == mark)) place = (place + 1) & (size - 1);
        if (table[place] < 0) {
            table[place] = int32_t(first.size());
            first.push_back(int32_t(i));
            known.push_back(mark);
        }
        classes[i] = table[place];
    }
    colour.swap(classes);
    return first;
}

// The graph from `colours` rows to the nodes `first`, or to all where that is null: parent, rowptr, colptr, col, row
// and edge from `out` on. Gives the number of edges.
int64_t write_links(const Graph& graph, int64_t colours, const std::vector<int32_t>& colour,
                    const std::vector<int32_t>* first, int32_t* out) {
    const int64_t count = first ? int64_t(first->size()) : graph.N;
    int32_t *parent = out, *rowptr = parent + count, *colptr = rowptr + count + 1, *col = colptr + colours + 1;
    std::fill_n(colptr, colours + 1, 0);
    int32_t place = 0;
    for (int64_t c = 0; c < count; c++) {
        const int64_t i = first ? (*first)[c] : c;
        parent[c] = colour[i];
        rowptr[c] = place;
        for (int32_t e = graph.rowptr[i]; e < graph.rowptr[i + 1]; e++) {
            col[place] = colour[graph.col[e]];
            colptr[col[place++] + 1]++;
        }
    }
    rowptr[count] = place;

    // By source: the counts become offsets, which move on as they are used and are moved back in the end.
    int32_t *row = col + place, *edge = row + place;
    for (int64_t j = 0; j < colours; j++) colptr[j + 1] += colptr[j];
    for (int64_t c = 0; c < count; c++)
        for (int32_t e = rowptr[c]; e < rowptr[c + 1]; e++) {
            const int32_t to = colptr[col[e]]++;
            row[to] = int32_t(c);
            edge[to] = e;
        }
    for (int64_t j = colours; j > 0; j--) colptr[j] = colptr[j - 1];
    colptr[0] = 0;
    return place;
}

}  // namespace
}  // namespace mimogc

int64_t mimogc_classes(int64_t N, const int32_t* rowptr, const int32_t* col, int64_t num_rows, const int64_t* index,
                       int64_t layers, int64_t most, int64_t* sizes, int32_t* out) {
    const mimogc::Graph graph = {N, rowptr, col};
    std::vector<int32_t> colour(N);
    for (int64_t i = 0; i < N; i++) {
        if (index[i] < 0 || index[i] >= num_rows) return -1 - i;
        colour[i] = int32_t(index[i]);
    }
    for (int64_t layer = 0;; layer++) {
        const bool last = layer == layers - 1 || num_rows > most;
        const std::vector<int32_t> before = colour;
        std::vector<int32_t> first;
        if (!last) first = mimogc::refine(graph, num_rows, colour);
        const int64_t count = last ? N : int64_t(first.size());
        const int64_t edges = mimogc::write_links(graph, num_rows, before, last ? nullptr : &first, out);
        sizes[2 * layer] = count;
        sizes[2 * layer + 1] = edges;
        if (last) return layer + 1;
        out += 2 * count + 1 + num_rows + 1 + 3 * edges;
        num_rows = count;
    }
}

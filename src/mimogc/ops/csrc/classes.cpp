// Colour refinement (Weisfeiler and Leman): a layer gives nodes of one colour with the same colours around them the
// same features, so each such class is computed once.
#include <algorithm>
#include <vector>

#include "call.h"

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

// Turns the colours of the nodes, each less than `colours`, into their classes. Gives the first node of each class.
std::vector<int32_t> refine(const MimogcGraph& graph, int64_t colours, std::vector<int32_t>& colour) {
    std::vector<Mark> own(colours), around(colours), known;
    for (uint64_t c = 0; c < uint64_t(colours); c++) {
        own[c] = {random_bits(4 * c + 1), random_bits(4 * c + 2)};
        around[c] = {random_bits(4 * c + 3), random_bits(4 * c + 4)};
    }
    size_t size = 16;
    while (size < 2 * size_t(graph.num_dst)) size *= 2;
    std::vector<int32_t> table(size, -1), first, classes(graph.num_dst);
    for (int64_t i = 0; i < graph.num_dst; i++) {
        Mark mark = own[colour[i]];
        for (int32_t e = graph.rowptr[i]; e < graph.rowptr[i + 1]; e++) mark.add(around[colour[graph.sources[e]]]);
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

// The graph from `colours` rows to the nodes `first`, or to all where that is null, with its arrays from `room` on: the
// room behind them is given.
int32_t* write_links(const MimogcGraph& graph, int64_t colours, const std::vector<int32_t>& colour,
                     const std::vector<int32_t>* first, int32_t* room, MimogcGraph* links) {
    const int64_t count = first ? int64_t(first->size()) : graph.num_dst;
    int32_t *parent = room, *rowptr = parent + count, *colptr = rowptr + count + 1, *sources = colptr + colours + 1;
    std::fill_n(colptr, colours + 1, 0);
    int32_t place = 0;
    for (int64_t c = 0; c < count; c++) {
        const int64_t i = first ? (*first)[c] : c;
        parent[c] = colour[i];
        rowptr[c] = place;
        for (int32_t e = graph.rowptr[i]; e < graph.rowptr[i + 1]; e++) {
            sources[place] = colour[graph.sources[e]];
            colptr[sources[place++] + 1]++;
        }
    }
    rowptr[count] = place;

    // By source: the counts become offsets, which move on as they are used and are moved back in the end.
    int32_t *targets = sources + place, *slot = targets + place;
    for (int64_t j = 0; j < colours; j++) colptr[j + 1] += colptr[j];
    for (int64_t c = 0; c < count; c++)
        for (int32_t e = rowptr[c]; e < rowptr[c + 1]; e++) {
            const int32_t to = colptr[sources[e]]++;
            targets[to] = int32_t(c);
            slot[to] = e;
        }
    for (int64_t j = colours; j > 0; j--) colptr[j] = colptr[j - 1];
    colptr[0] = 0;
    *links = {colours, count, place, rowptr, sources, colptr, targets, slot, parent};
    return slot + place;
}

int64_t classes(const MimogcGraph& graph, int64_t num_rows, const int64_t* rows, int64_t layers, int64_t most,
                MimogcGraph* found, int32_t* room) {
    std::vector<int32_t> colour(graph.num_dst);
    for (int64_t i = 0; i < graph.num_dst; i++) {
        if (rows[i] < 0 || rows[i] >= num_rows) return -1 - i;
        colour[i] = int32_t(rows[i]);
    }
    for (int64_t layer = 0;; layer++) {
        const bool last = layer == layers - 1 || num_rows > most;
        const std::vector<int32_t> before = colour;
        std::vector<int32_t> first;
        if (!last) first = refine(graph, num_rows, colour);
        room = write_links(graph, num_rows, before, last ? nullptr : &first, room, found + layer);
        if (last) return layer + 1;
        num_rows = int64_t(first.size());
    }
}

}  // namespace
}  // namespace mimogc

int64_t mimogc_classes(const MimogcGraph* graph, int64_t num_rows, const int64_t* rows, int64_t layers, int64_t most,
                       MimogcGraph* found, int32_t* room) {
    return mimogc::within_memory([&] { return mimogc::classes(*graph, num_rows, rows, layers, most, found, room); });
}

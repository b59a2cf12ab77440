// What stands between the C interface and the kernels: the type of the numbers, and memory that is not there.
#pragma once
#include <cstdint>
#include <new>
#include <stdexcept>

extern "C" {
#include "mimogc.h"
}

namespace mimogc {

template <class T>
inline const T* as(const void* numbers) {
    return static_cast<const T*>(numbers);
}
template <class T>
inline T* as(void* numbers) {
    return static_cast<T*>(numbers);
}

// What body() gives, or MIMOGC_NO_MEMORY where it throws: nothing else is thrown here.
template <class Body>
int64_t within_memory(const Body& body) {
    try {
        return body();
    } catch (...) {
        return MIMOGC_NO_MEMORY;
    }
}

// Calls body with a float or a double, for its type. Gives 0, or MIMOGC_NO_MEMORY.
template <class Body>
int64_t typed(const MimogcSizes* sizes, const Body& body) {
    return within_memory([&] {
        sizes->bytes == 4 ? body(float()) : body(double());
        return int64_t(0);
    });
}

}  // namespace mimogc

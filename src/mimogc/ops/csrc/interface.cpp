// Which interface the library was compiled for, so that sources that have moved on do not call it.
#include "call.h"
#include "pages.h"

#ifndef MIMOGC_INTERFACE
#define MIMOGC_INTERFACE ""
#endif

const char* mimogc_interface() { return MIMOGC_INTERFACE; }

int64_t mimogc_huge_pages(void* start, int64_t bytes) {
    mimogc::ask_for_huge_pages(start, bytes);
    return 0;
}

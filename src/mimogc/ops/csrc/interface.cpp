// Which interface the library was compiled for, so that sources that have moved on do not call it.
#include "mimogc.h"

#ifndef MIMOGC_INTERFACE
#define MIMOGC_INTERFACE ""
#endif

const char* mimogc_interface() { return MIMOGC_INTERFACE; }

"""The C types of `walk.py`. C shifts in the width of what is shifted: a `byte` of 8 bits would lose all above 31 bits."""

cimport cython

cdef long long _SAFE
cdef int _INT, _LONG

@cython.locals(at=Py_ssize_t, largest="long long", index=Py_ssize_t, length="long long", delta="long long",
               record_end=Py_ssize_t, headers="long long")
cpdef long long largest_timestamp(
    const unsigned char *data, Py_ssize_t start, Py_ssize_t end, Py_ssize_t count, long long base_timestamp,
    long long timestamp_min, long long timestamp_max, bint needs_key)

@cython.locals(value="unsigned long long", shift=int, byte="unsigned long long")
cdef (long long, Py_ssize_t) _varint(const unsigned char *data, Py_ssize_t at, Py_ssize_t end, int shift_max)

@cython.locals(length="long long")
cdef Py_ssize_t _after_bytes(const unsigned char *data, Py_ssize_t at, Py_ssize_t end, bint may_be_null)

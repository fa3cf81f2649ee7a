#pragma once

// ATP_VALUE_LOOP marks a function whose body is a plain loop over the values of a fragment, one
// element at a time, which the compiler turns into SIMD. Swapping bytes and converting to double
// need what the x86-64 baseline lacks, so such a function is compiled for AVX2 as well, and the
// loader picks the version for the machine. Its resolver runs before the thread sanitizer is
// ready, so not under that one.

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_THREAD__)
#define ATP_VALUE_LOOP __attribute__((target_clones("avx2", "default")))
#else
#define ATP_VALUE_LOOP
#endif

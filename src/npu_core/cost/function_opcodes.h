// Tile operations of functions that the chip computes by a sequence of vector instructions: how many passes over the tile
// the sequence takes, and on which instruction of the device table they are priced. The sequences are counted from the
// documented compositions (operation table) and the usual polynomials; the chip's own ones are not published.
#pragma once

// name, instruction, passes
#define NPU_FUNCTION_OPCODES(F)                                                                                       \
    F(EXP2, "vmul", 41)           /* a fill and a power */                                                            \
    F(SIN, "vmul", 24)            /* reduction by 4-term pi 11, polynomial 9, sign 4 */                               \
    F(COS, "vmul", 25)                                                                                                \
    F(TAN, "vmul", 36)            /* reduction 11, numerator and denominator 15, division 4, selection 6 */           \
    F(ASIN, "vmul", 26)           /* |x| and sqrt(1 - x) branch 8, polynomial 12, selection and sign 6 */             \
    F(ACOS, "vmul", 28)                                                                                               \
    F(ATAN, "vmul", 30)           /* two reductions with a division each 14, polynomial 10, selection and sign 6 */   \
    F(ATAN2, "vmul", 44)          /* division 4, atan 30, quadrants 10 */                                             \
    F(SINH, "vmul", 20)           /* two exponentials 4, difference 2, polynomial near zero 8, selection 6 */         \
    F(COSH, "vexp", 5)            /* negation, two exponentials, sum, half */                                         \
    F(ASINH, "vmul", 16)          /* |x|, square root 5, logarithm 3, overflow branch 4, sign 4 */                    \
    F(ACOSH, "vmul", 11)          /* square root 5, logarithm 3, domain 3 */                                          \
    F(ATANH, "vmul", 9)           /* two sums, division 4, logarithm 2, half */                                       \
    F(ERFC, "vmul", 38)           /* erf 27, exponential tail 8, selection 3 */                                       \
    F(CBRT, "vmul", 44)           /* |x|, power 40, copysign 3 */                                                     \
    F(BITNOT, "vnot", 1)                                                                                              \
    F(BITAND, "vand", 1)                                                                                              \
    F(BITOR, "vor", 1)                                                                                                \
    F(BITXOR, "vand", 4)          /* or, and, not, and */                                                             \
    F(SHIFT, "vadds", 1)                                                                                              \
    F(SHIFT_TENSOR, "vand", 20)   /* one selection per bit of the count, with its shift and its mask */               \
    F(FMOD, "vmul", 9)            /* division 4, truncation, product, difference, correction 2 */                     \
    F(REMAINDER, "vmul", 10)      /* division 4, floor, product, difference, correction 3 */                          \
    F(FLOORDIV, "vmul", 8)        /* conversions 2, division 4, floor, correction */                                  \
    F(CEILDIV, "vmul", 8)                                                                                             \
    F(HYPOT, "vmul", 14)          /* scaling by the larger one 6, two squares, sum, square root 3, product 2 */       \
    F(COPYSIGN, "vand", 3)        /* two masks and their union */                                                     \
    F(GCD, "vmul", 240)           /* Euclid's remainders: 24 of ten passes */                                         \
    F(CUM_PROD, "vmul", 4)                                                                                            \
    F(PAIRARG, "vsel", 3)         /* comparison, selection of values and of indices */                                \
    F(ROWARGLINE, "vsel", 3)                                                                                          \
    F(PHILOX, "vmul", 100)        /* ten rounds: two 32-bit products in halves, two exclusive ors, a key */           \
    F(ONE_HOT, "vsel", 3)         /* a range, a comparison, a selection */                                            \
    F(INTERLEAVE, "vcopy", 4)     /* through the transposing copy and back */                                         \
    F(PACK_BITS, "vconv", 2)                                                                                          \
    F(QUANT_MX, "vmul", 14)       /* maxima of groups 6, exponent 3, scaling 3, conversion 2 */                       \
    F(SORT32, "vbitsort", 1)                                                                                          \
    F(MERGE_RUNS, "vmrgsort4", 1)

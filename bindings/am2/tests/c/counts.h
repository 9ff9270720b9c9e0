/* EACH(M, parameters, values) for each number of arguments. */
EACH(0, (), ())
EACH(1, (, int32_t a0), (, a0))
EACH(2, (, int32_t a0, int32_t a1), (, a0, a1))
EACH(3, (, int32_t a0, int32_t a1, int32_t a2), (, a0, a1, a2))
EACH(4, (, int32_t a0, int32_t a1, int32_t a2, int32_t a3), (, a0, a1, a2, a3))
EACH(5, (, int32_t a0, int32_t a1, int32_t a2, int32_t a3, int32_t a4), (, a0, a1, a2, a3, a4))
EACH(6, (, int32_t a0, int32_t a1, int32_t a2, int32_t a3, int32_t a4, int32_t a5), (, a0, a1, a2, a3, a4, a5))
EACH(7, (, int32_t a0, int32_t a1, int32_t a2, int32_t a3, int32_t a4, int32_t a5, int32_t a6),
     (, a0, a1, a2, a3, a4, a5, a6))
EACH(8, (, int32_t a0, int32_t a1, int32_t a2, int32_t a3, int32_t a4, int32_t a5, int32_t a6, int32_t a7),
     (, a0, a1, a2, a3, a4, a5, a6, a7))
EACH(9, (, int32_t a0, int32_t a1, int32_t a2, int32_t a3, int32_t a4, int32_t a5, int32_t a6, int32_t a7, int32_t a8),
     (, a0, a1, a2, a3, a4, a5, a6, a7, a8))
EACH(10, (, int32_t a0, int32_t a1, int32_t a2, int32_t a3, int32_t a4, int32_t a5, int32_t a6, int32_t a7, int32_t a8, int32_t a9),
     (, a0, a1, a2, a3, a4, a5, a6, a7, a8, a9))
EACH(11, (, int32_t a0, int32_t a1, int32_t a2, int32_t a3, int32_t a4, int32_t a5, int32_t a6, int32_t a7, int32_t a8, int32_t a9, int32_t a10),
     (, a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10))
EACH(12, (, int32_t a0, int32_t a1, int32_t a2, int32_t a3, int32_t a4, int32_t a5, int32_t a6, int32_t a7, int32_t a8, int32_t a9, int32_t a10, int32_t a11),
     (, a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11))
EACH(13, (, int32_t a0, int32_t a1, int32_t a2, int32_t a3, int32_t a4, int32_t a5, int32_t a6, int32_t a7, int32_t a8, int32_t a9, int32_t a10, int32_t a11, int32_t a12),
     (, a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12))
EACH(14, (, int32_t a0, int32_t a1, int32_t a2, int32_t a3, int32_t a4, int32_t a5, int32_t a6, int32_t a7, int32_t a8, int32_t a9, int32_t a10, int32_t a11, int32_t a12, int32_t a13),
     (, a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13))
EACH(15, (, int32_t a0, int32_t a1, int32_t a2, int32_t a3, int32_t a4, int32_t a5, int32_t a6, int32_t a7, int32_t a8, int32_t a9, int32_t a10, int32_t a11, int32_t a12, int32_t a13, int32_t a14),
     (, a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14))
EACH(16, (, int32_t a0, int32_t a1, int32_t a2, int32_t a3, int32_t a4, int32_t a5, int32_t a6, int32_t a7, int32_t a8, int32_t a9, int32_t a10, int32_t a11, int32_t a12, int32_t a13, int32_t a14, int32_t a15),
     (, a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15))

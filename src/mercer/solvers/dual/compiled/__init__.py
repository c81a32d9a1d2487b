"""The compiled loops of dual ascent: terms, certificates, steps on a working set, sums of rows.

All functions see min ½αᵀKα + Σ g_i(α_i) with g_i(a) = −t_i a + ε|a| + ½q_i a² on [low_i, high_i],
or with an entropy in place of the last two terms. `fields` holds (t, q, low, high), a row each;
rows are taken by number, since Numba forgets that unpacked ones are contiguous.
"""

"""Seeded numbers. Every function here has a twin of the same name in crates/testkit/src/data.rs, which gives the same
bits: integer arithmetic and single, exactly rounded f32 operations, nothing of a mathematical library.
"""

import numpy as np

F, U = np.float32, np.uint64


def mix(seed, index):
    with np.errstate(over="ignore"):
        z = np.full(1, seed, U) * U(0xD1342543DE82EF95) + (index + U(1)) * U(0x9E3779B97F4A7C15)
        z = (z ^ (z >> U(30))) * U(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> U(27))) * U(0x94D049BB133111EB)
        return z ^ (z >> U(31))


def bytes_(seed, n):
    return (mix(seed, np.arange(n, dtype=U)) >> U(56)).astype(np.uint8)


def bell(seed, index):
    def lanes(z):
        m = U(0xFFFF)
        return (z & m) + (z >> U(16) & m) + (z >> U(32) & m) + (z >> U(48))

    total = lanes(mix(seed, U(2) * index)) + lanes(mix(seed, U(2) * index + U(1)))
    return (total.astype(np.int64) - 262140).astype(F)


def normal(seed, index):
    return bell(seed, index) * F(3.7e-7)


TIES = [(-16, 32), (0, 31), (-32, 64), (0, 63), (-254, 509), (-8, 16), (-64, 128), (-2, 5)]


def from_bits(bits):
    return bits.astype(np.uint32).view(F)


def power_of_two(exponent):
    return from_bits(np.atleast_1d(np.asarray(exponent, np.int64) + 127) << 23)


def signed(negative, magnitude):
    return np.where(negative, -magnitude, magnitude).astype(F)


def stretch_of(seed, i):
    stretch = i // U(256)
    return mix(seed + (1 << 32), i), mix(seed + (2 << 32), stretch), stretch, i % U(256)


def nasty(seed, i):
    r, s, stretch, j = stretch_of(seed, i)
    negative = r & U(1) == 1
    sign = (r & U(1)) << U(31)
    high = r >> U(40)
    value = normal(seed, i)
    amplitude = np.abs(normal(seed, stretch)) + F(0.001)
    zero = np.zeros(i.shape, F)

    def ties(kind):
        lowest, count = TIES[kind - 9]
        step = np.where(j % U(32) == s % U(32), U(0), high % U(count))
        step = np.where((j % U(32) == (s + U(1)) % U(32)) & (j % U(32) != s % U(32)), U(count - 1), step)
        return (step.astype(np.int64) + lowest).astype(F) * power_of_two(-1 - (s >> U(8) & U(7)).astype(np.int64))

    kinds = [
        zero,
        -zero,
        signed(negative, zero),
        np.where(j == s % U(256), value, zero),
        np.where(j % U(16) == s % U(16), value, zero),
        amplitude,
        -amplitude,
        from_bits(sign | high >> U(1)),
        from_bits(sign | high & U(7)),
        *[ties(kind) for kind in range(9, 17)],
        signed(j % U(2) == 1, amplitude),
        signed(j % U(2) == 1, np.abs(value)),
        from_bits(sign | (U(60) + high % U(100)) << U(23) | r >> U(1) & U(0x7FFFFF)),
        np.abs(value) + F(1),
        -(np.abs(value) + F(1)),
        value * power_of_two(-45),
        (high % U(3)).astype(F) * amplitude - amplitude,
        j.astype(F) * power_of_two(-6) - F(2),
        value * power_of_two(24),
        signed(negative, amplitude),
        (high % U(4)).astype(F),
    ]
    assert len(kinds) == 28
    return np.choose((stretch % U(28)).astype(np.int64), kinds).astype(F)


def extreme(seed, i):
    r, s, stretch, j = stretch_of(seed, i)
    negative = r & U(1) == 1
    sign = (r & U(1)) << U(31)
    high = r >> U(40)
    mantissa = r >> U(1) & U(0x7FFFFF)
    value = normal(seed, i)
    largest = np.full(i.shape, np.finfo(F).max, F)
    kinds = [
        signed(negative, largest),
        largest,
        from_bits(sign | (U(1) + high % U(254)) << U(23) | mantissa),
        from_bits(sign | (U(190) + high % U(64)) << U(23) | mantissa),
        np.where(j == s % U(256), largest, value),
        value * power_of_two(70),
        from_bits(sign | (U(0x7F7FFFFF) - (high & U(0xFFFF)))),
        from_bits(sign | (U(1) + high % U(20)) << U(23) | mantissa),
        value * power_of_two(-70),
    ]
    return np.choose((stretch % U(9)).astype(np.int64), kinds).astype(F)


def values(data, seed, n):
    i = np.arange(n, dtype=U)
    if data == "normal":
        return normal(seed, i)
    if data == "heavy":
        x = bell(seed, i) * F(3.7e-6)
        return x * x * x
    if data == "nasty":
        return nasty(seed, i)
    if data == "extreme":
        return extreme(seed, i)
    return from_bits(mix(seed, i) >> U(32))


def weights(kind, seed, n):
    i = np.arange(n, dtype=U)
    r = mix(seed, i)
    number = ((r >> U(40)) + U(1)).astype(F)
    x = number * power_of_two(-24)
    usual = x * x * F(3)
    if kind == "mixed":
        return np.where(r % U(16) == 0, F(0), np.where(r % U(16) == 1, number, usual)).astype(F)
    return np.where(mix(seed + (1 << 32), i // U(32)) % U(4) == 0, F(0), usual).astype(F)

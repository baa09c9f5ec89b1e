// Checks for the C++ tests: count failures, print the first ones, return them from main.
#pragma once
#include <cstdio>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

inline int failures = 0;

#define CHECK(condition, ...)                                              \
    do {                                                                   \
        if (!(condition) && ++failures <= 20) {                            \
            std::printf("%s:%d: %s: ", __FILE__, __LINE__, #condition);    \
            std::printf("" __VA_ARGS__);                                   \
            std::printf("\n");                                             \
        }                                                                  \
    } while (0)

inline int report(const char* name) {
    std::printf("%s: %s (%d failed)\n", name, failures ? "FAILED" : "ok", failures);
    return failures > 100 ? 100 : failures;
}

inline uint32_t bits_of(float f) {
    uint32_t u;
    std::memcpy(&u, &f, 4);
    return u;
}
inline float float_of(uint32_t u) {
    float f;
    std::memcpy(&f, &u, 4);
    return f;
}
inline bool same_value(float a, float b) { return bits_of(a) == bits_of(b) || (a != a && b != b); }

// Values that tend to go wrong, then random bit patterns, then moderate random numbers.
inline std::vector<float> probe_values(int random_count, unsigned seed = 1) {
    const float infinity = __builtin_inff(), nan = __builtin_nanf("");
    std::vector<float> v = {0.0f, -0.0f, 1.0f, -1.0f, 0.5f, 1.5f, 2.5f, -0.5f, -2.5f, 1e-45f, -1e-45f,
                            1.1754942e-38f, 1.1754944e-38f, 3.4028235e38f, -3.4028235e38f, 65504.0f, 65519.0f, 65520.0f,
                            8388607.5f, 8388608.0f, 4194304.5f, -4194304.5f, 2147483648.0f, -2147483648.0f,
                            88.72f, 88.73f, -87.34f, -103.9f, -104.0f, infinity, -infinity, nan,
                            float_of(0xffc00001u), float_of(0x7f800001u)};
    std::mt19937 rng(seed);
    std::normal_distribution<float> normal;
    for (int i = 0; i < random_count; ++i) v.push_back(float_of(static_cast<uint32_t>(rng())));
    for (int i = 0; i < random_count; ++i) v.push_back(normal(rng) * 4);
    return v;
}

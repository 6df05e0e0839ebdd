// Host time of short calls: batches, their median.
#pragma once
#include <algorithm>
#include <chrono>
#include <vector>

using Clock = std::chrono::steady_clock;

inline double microseconds(Clock::time_point from) {
    return std::chrono::duration<double, std::micro>(Clock::now() - from).count();
}

// Median time of one of `count` calls that `batch` makes; `after` is not timed.
// Before the first batch that counts, the same is done for `warm` microseconds,
// so that clocks have risen and caches are warm.
template <typename Batch, typename After>
double median(int batches, int count, double warm, Batch batch, After after) {
    auto start = Clock::now();
    do {
        batch();
        after();
    } while (microseconds(start) < warm);
    std::vector<double> times;
    for (int k = 0; k < batches; k++) {
        auto start = Clock::now();
        batch();
        times.push_back(microseconds(start) / count);
        after();
    }
    std::sort(times.begin(), times.end());
    return times[times.size() / 2];
}

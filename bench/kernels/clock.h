// Host time of short calls: batches, their median.
#pragma once
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <vector>

using Clock = std::chrono::steady_clock;

inline double microseconds(Clock::time_point from) {
    return std::chrono::duration<double, std::micro>(Clock::now() - from).count();
}

// Batches are measured on request (see `median`).
inline bool by_turns = false;

// Median of what was measured, which is put in order.
inline double middle(std::vector<double> &times) {
    std::sort(times.begin(), times.end());
    return times.empty() ? 0 : times[times.size() / 2];
}

// Median time of one of `count` calls that `batch` makes; `after` is not timed.
// Before the first batch that counts, the same is done for `warm` microseconds,
// so that clocks have risen and caches are warm.
//
// With `by_turns`, another process measures the same in turn with this one: for
// each line on standard input, the median of a few batches is printed, after
// one that does not count, because the other process had the device and the
// caches. The first line of the output says that all is warm.
template <typename Batch, typename After>
double median(int batches, int count, double warm, Batch batch, After after) {
    auto start = Clock::now();
    do {
        batch();
        after();
    } while (microseconds(start) < warm);
    auto measure = [&](int wanted) {
        std::vector<double> times;
        for (int k = 0; k < wanted; k++) {
            auto start = Clock::now();
            batch();
            times.push_back(microseconds(start) / count);
            after();
        }
        return middle(times);
    };
    if (!by_turns) return measure(batches);
    const int a_turn = 5;
    std::printf("{\"ready\":true}\n");
    std::fflush(stdout);
    std::vector<double> turns;
    for (int next; (next = std::getchar()) != EOF;) {
        if (next != '\n') continue;
        measure(1);
        turns.push_back(measure(a_turn));
        std::printf("{\"times\":[%.4f]}\n", turns.back());
        std::fflush(stdout);
    }
    return middle(turns);
}

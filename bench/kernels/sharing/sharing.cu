// A program that shares a device with others.
//
//   sharing WORK [--small] [--rounds N | --seconds S]
//   sharing calls [--small]
//
// Prints {"ready":true} once all is allocated and each kernel has run, and waits
// for a line on standard input, so that programs that share a device begin at
// the same time. Then it makes N rounds, or rounds for S seconds, and prints
//   {"rounds":N,"seconds":1.5,"digest":"..."}
// The digest depends on the number of rounds alone. `calls` is in calls.cu.
// `idle` makes no rounds: it keeps what a program on a device has until its
// standard input ends.
#include "work.h"
#include <chrono>

static double seconds_since(std::chrono::steady_clock::time_point start) {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

static std::unique_ptr<Work> make(const std::string &name, bool is_small) {
    if (name == "compute") return make_compute(is_small);
    if (name == "memory") return make_memory(is_small);
    if (name == "gather") return make_gather(is_small);
    if (name == "launch") return make_launch(is_small);
    if (name == "train") return make_train(is_small);
    if (name == "empty" || name == "idle") return make_empty(true);
    return nullptr;
}

// Until standard input has a line; whether it has.
static bool begins() {
    int next;
    while ((next = std::getchar()) != EOF)
        if (next == '\n') return true;
    return false;
}

int main(int argc, char **argv) {
    std::string name = argc > 1 ? argv[1] : "";
    bool is_small = false;
    long long rounds = 0;
    double seconds = 0;
    for (int at = 2; at < argc; at++) {
        bool has_value = at + 1 < argc;
        if (!std::strcmp(argv[at], "--small"))
            is_small = true;
        else if (!std::strcmp(argv[at], "--rounds") && has_value)
            rounds = std::atoll(argv[++at]);
        else if (!std::strcmp(argv[at], "--seconds") && has_value)
            seconds = std::atof(argv[++at]);
        else
            name.clear();
    }
    if (name == "calls") return calls(is_small);
    std::unique_ptr<Work> work = name == "empty" ? make_empty(is_small) : make(name, is_small);
    if (!work) {
        std::fprintf(stderr,
                     "usage: %s compute|memory|gather|launch|train|empty|idle|calls [--small] [--rounds N | --seconds S]\n",
                     argv[0]);
        return 2;
    }
    work->round();
    std::printf("{\"ready\":true}\n");
    std::fflush(stdout);
    if (!begins() || name == "idle") return 0;
    auto start = std::chrono::steady_clock::now();
    long long made = 0;
    while (rounds ? made < rounds : seconds_since(start) < seconds) {
        work->round();
        made++;
    }
    double taken = seconds_since(start);
    std::printf("{\"rounds\":%lld,\"seconds\":%.6f,\"digest\":\"%016llx\"}\n", made, taken,
                static_cast<unsigned long long>(work->digest()));
    return 0;
}

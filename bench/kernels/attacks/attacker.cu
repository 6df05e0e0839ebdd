// A program that attacks the other programs on its device.
//
//   attacker CLASS NAME [--attempts N] [--first N] [--milliseconds N] [--large]
//            [--secret ADDRESS --integers ADDRESS --floats ADDRESS --bytes N]
//            [--partition ADDRESS] [--at-a-word]
//   attacker tour all                  calls all that tenants have
//   attacker CLASS NAME ... --beside   with a neighbour in its own context, as
//                                      threads of one program
//
// Makes attempts, from the first one on, until the time is over and there are so
// many, or one has failed. Prints `attempts N`, `leaked WORDS` if it saw the
// neighbour's secret, `refused CODE` for each module that was not loaded, and
// `answer WHAT CODE`. Attacks of the classes `loops`, `waits` and `kill` run until
// somebody ends them; they print `running`. With `--at-a-word`, code is loaded
// first; then it prints `loaded` and waits for a line: so several attackers begin
// together, and none keeps another one from loading.
#include "attack.cuh"
#include "neighbour.cuh"
#include "tour.h"
#include <chrono>
#include <thread>
#include <unistd.h>

using Clock = std::chrono::steady_clock;

static uint32_t leaked(const Target &t) {
    uint32_t words = 0;
    cudaMemcpy(&words, t.found, 4, cudaMemcpyDeviceToHost);
    return words;
}

// Whether the device still answers.
static bool is_well(const char *what) {
    cudaError_t error = cudaGetLastError();
    if (error == cudaSuccess) error = cudaDeviceSynchronize();
    if (error == cudaErrorNotPermitted) std::printf("refused %d\n", (int)error);
    else if (error != cudaSuccess) std::printf("answer %s %d\n", what, (int)error);
    return error == cudaSuccess;
}

struct Span {
    unsigned first = 0, attempts = 1, milliseconds = 0;
};

static void attack(Target &t, const Attack &attack, Span span) {
    auto start = Clock::now();
    auto is_over = [&] { return Clock::now() - start > std::chrono::milliseconds(span.milliseconds); };
    unsigned made = 0;
    bool is_fine = true;
    while (is_fine && (made < span.attempts || !is_over())) {
        attack.attempt(t, span.first + made++);
        is_fine = is_well("synchronize");
    }
    std::printf("attempts %u\n", made);
    uint32_t words = attack.is_reader ? leaked(t) : 0;
    if (words) std::printf("leaked %u\n", words);
    std::fflush(stdout);
}

// In several streams, until somebody ends it.
static void endless(Target &t, const Attack &attack) {
    // (All are made first: who makes one may have to wait for what is in flight.)
    const unsigned streams = 8;
    cudaStream_t made[streams];
    for (cudaStream_t &stream : made) CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    for (unsigned at = 0; at < streams; at++) {
        t.stream = made[at];
        attack.attempt(t, at);
        cudaError_t error = cudaGetLastError();
        if (error != cudaSuccess) std::printf("refused %d\n", (int)error);
    }
    std::printf("attempts %u\nrunning\n", streams);
    std::fflush(stdout);
    for (;;) std::this_thread::sleep_for(std::chrono::seconds(1));
}

__global__ void without_end(volatile uint32_t *data) {
    while (data[threadIdx.x] != 1) {
    }
}

__global__ void printing(uint32_t *data) { printf("%u of %p\n", threadIdx.x, data); }

__global__ void busy(uint32_t *data, int n) {
    for (int at = threadIdx.x; at < n; at += blockDim.x) data[at] = data[at] * 3 + at;
}

static const char SMALL[] = ".version 8.0\n.target sm_75\n.address_size 64\n"
                            ".visible .entry nothing(.param .u64 a) { ret; }\n";

// Does one thing without end, so that it is killed in the middle of it.
[[noreturn]] static void until_killed(const std::string &what) {
    const size_t n = 8 << 20;
    std::vector<char> host(n, 0x5a);
    uint32_t *device;
    CHECK(cudaMalloc(&device, n));
    CHECK(cudaMemset(device, 0, n));
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    cudaGraphExec_t graph = nullptr;
    if (what == "graphs") {
        cudaGraph_t made;
        CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
        for (int launch = 0; launch < 20; launch++) busy<<<1, 64, 0, stream>>>(device, 64);
        CHECK(cudaStreamEndCapture(stream, &made));
        CHECK(cudaGraphInstantiateWithFlags(&graph, made, 0));
    }
    bool is_endless = what == "endless kernels" || what == "waits";
    if (is_endless) without_end<<<64, 64, 0, stream>>>(device);
    std::printf("attempts 1\nrunning\n");
    std::fflush(stdout);
    for (;;) {
        if (what == "endless kernels") {
            without_end<<<64, 64>>>(device);
            usleep(1000);
        } else if (what == "waits") {
            CHECK(cudaDeviceSynchronize());
        } else if (what == "graphs") {
            for (int launch = 0; launch < 10; launch++) CHECK(cudaGraphLaunch(graph, stream));
            CHECK(cudaStreamSynchronize(stream));
        } else if (what == "resets") {
            CHECK(cudaDeviceReset());
            CHECK(cudaMalloc(&device, n));
            busy<<<1, 64>>>(device, 64);
        } else if (what == "printing") {
            printing<<<2, 32>>>(device);
            CHECK(cudaDeviceSynchronize());
        } else if (what == "copies") {
            CHECK(cudaMemcpy(device, host.data(), n, cudaMemcpyHostToDevice));
            CHECK(cudaMemcpy(host.data(), device, n, cudaMemcpyDeviceToHost));
        } else if (what == "launches") {
            for (int launch = 0; launch < 50; launch++) busy<<<1, 64>>>(device, 64);
            CHECK(cudaDeviceSynchronize());
        } else if (what == "modules") {
            CUmodule module;
            CHECK_DRIVER(DRIVER(cuModuleLoadData)(&module, SMALL));
            CHECK_DRIVER(DRIVER(cuModuleUnload)(module));
        } else {
            uint32_t *more;
            CHECK(cudaMalloc(&more, 1 << 20));
            CHECK(cudaMemset(more, 0x77, 1 << 20));
            CHECK(cudaFree(more));
        }
    }
}

// The neighbour and the attack in one context.
static int beside(Target &t, const Attack &what, Span span, bool is_endless) {
    Neighbour neighbour(t.is_large);
    neighbour.tell();
    t.secret = (uint64_t)neighbour.secret;
    t.integers = (uint64_t)neighbour.integers;
    t.floats = (uint64_t)neighbour.floats[0];
    t.bytes = 4 * neighbour.n;
    std::thread attacker;
    bool is_over = false;
    int last = 0;
    neighbour.run([&](int number) {
        if (number == 2) {
            attacker = std::thread([&] {
                t.make();
                if (is_endless) endless(t, what);
                attack(t, what, span);
                __atomic_store_n(&is_over, true, __ATOMIC_RELEASE);
            });
        }
        // Each buffer is used in each round: two more show all damage.
        if (!__atomic_load_n(&is_over, __ATOMIC_ACQUIRE)) last = number + 2;
        return number > last;
    });
    attacker.join();
    CHECK(cudaDeviceSynchronize());
    std::printf("end\n");
    return 0;
}

int main(int argc, char **argv) {
    if (argc < 3) return 2;
    std::string of = argv[1], name = argv[2];
    if (of == "kill") until_killed(name);
    if (of == "tour") {
        tour();
        return 0;
    }
    Target t;
    Span span;
    bool waits_for_word = false;
    for (int at = 3; at < argc; at++) {
        std::string option = argv[at];
        if (option == "--beside") t.is_beside = true;
        else if (option == "--large") t.is_large = true;
        else if (option == "--at-a-word") waits_for_word = true;
        else if (at + 1 == argc) return 2;
        else {
            uint64_t number = std::strtoull(argv[++at], nullptr, 0);
            if (option == "--attempts") span.attempts = number;
            else if (option == "--first") span.first = number;
            else if (option == "--milliseconds") span.milliseconds = number;
            else if (option == "--secret") t.secret = number;
            else if (option == "--integers") t.integers = number;
            else if (option == "--floats") t.floats = number;
            else if (option == "--bytes") t.bytes = number;
            else if (option == "--partition") t.partition = number;
            else return 2;
        }
    }
    const std::vector<Attack> *all = of == "accesses"   ? &ACCESSES
                                     : of == "ends"     ? &ENDS
                                     : of == "loops"    ? &LOOPS
                                     : of == "waits"    ? &WAITING
                                     : of == "calls"    ? &CALLS
                                     : of == "copies"   ? &COPIES
                                     : of == "residues" ? &RESIDUES
                                                        : nullptr;
    for (size_t at = 0; all && at < all->size(); at++) {
        const Attack &what = (*all)[at];
        if (name != what.name) continue;
        bool is_endless = of == "loops" || of == "waits";
        if (t.is_beside) return beside(t, what, span, is_endless);
        t.make();
        if (waits_for_word) {
            load_loops();
            std::printf("loaded\n");
            std::fflush(stdout);
            std::getchar();
        }
        if (is_endless) endless(t, what);
        attack(t, what, span);
        return 0;
    }
    std::fprintf(stderr, "there is no attack %s of class %s\n", name.c_str(), of.c_str());
    return 2;
}

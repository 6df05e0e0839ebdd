// A program that shares a device with an attacker, and must not notice.
//
//   neighbour [--large] [--rounds N]
//
// Runs until its standard input ends, or for so many rounds; prints where its
// memory is, a line a round, and `end`.
#include "neighbour.cuh"
#include <poll.h>
#include <unistd.h>

int main(int argc, char **argv) {
    bool is_large = false;
    int rounds = 0;
    for (int at = 1; at < argc; at++) {
        if (!std::strcmp(argv[at], "--large")) is_large = true;
        if (!std::strcmp(argv[at], "--rounds") && at + 1 < argc) rounds = std::atoi(argv[++at]);
    }
    Neighbour neighbour(is_large);
    neighbour.tell();
    neighbour.run([&](int number) {
        if (rounds) return number == rounds;
        pollfd input = {0, POLLIN, 0};
        return poll(&input, 1, 0) > 0;
    });
    CHECK(cudaDeviceSynchronize());
    std::printf("end\n");
    return 0;
}

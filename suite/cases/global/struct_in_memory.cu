// bug: a struct of pointers was copied to the device, and one pointer is overrun
// expect: rule=global-out-of-bounds-write function=update size=1016
#include "case.h"

struct State {
    double *energy;
    float *charge;
    int count;
};

__global__ void update(const State *state) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < state->count) {
        float q = state->charge[i];
        state->energy[i] = 0.5 * q * q;  // BUG
    }
}

int main() {
    const int n = 127;
    State host;
    host.energy = zeroed<double>(n);
    host.charge = upload(counting<float>(n + 1));
    host.count = n + bad;
    State *state = upload(std::vector<State>{host});
    update<<<2, 64>>>(state);
    FINISH();
    print_digest("energy", host.energy, n);
}

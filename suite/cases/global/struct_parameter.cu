// bug: the pointer arrives inside a struct that is passed by value
// expect: rule=global-out-of-bounds-write function=advance size=640
#include "case.h"

struct Particles {
    int count;
    float step;
    float *position;
    const float *velocity;
};

__global__ void advance(Particles p) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < p.count) {
        float v = p.velocity[i];
        p.position[i] = v * p.step;  // BUG
    }
}

int main() {
    const int n = 160;
    Particles p;
    p.count = n + bad;
    p.step = 0.5f;
    p.position = zeroed<float>(n);
    p.velocity = upload(counting<float>(n + 1));
    advance<<<2, 96>>>(p);
    FINISH();
    print_digest("position", p.position, n);
}

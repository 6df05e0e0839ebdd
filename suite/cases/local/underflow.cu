// bug: a stack is popped once too often and its index becomes negative
// expect: rule=local-out-of-bounds-read function=evaluate size=64
#include "case.h"

// Positive numbers are pushed, zero adds the two on top.
__global__ void evaluate(const int *program, int *out, int n) {
    int stack[16];
    int top = 0;
    for (int i = 0; i < n; i++) {
        int word = program[i];
        if (word == 0) {
            top -= 1;
            int sum = stack[top - 1] + stack[top];  // BUG
            stack[top > 0 ? top - 1 : 0] = sum;
        } else {
            stack[top++] = word + threadIdx.x;
        }
    }
    out[threadIdx.x] = stack[(top - 1) & 15];
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    int *program = upload(std::vector<int>{1, 2, 3, 0, 0, 4, 0, 0});
    int *out = zeroed<int>(8);
    evaluate<<<1, 8>>>(program, out, bad ? 8 : 7);
    FINISH();
    print_digest("out", out, bad ? 0 : 8);
    CHECK(cudaFree(program));
    CHECK(cudaFree(out));
}

// bug: four threads with queues of their own launch and release without end; one overruns once
// expect: rule=canary-overwritten kernel=work argument=data at=0
// run: launch-backtraces=1000 canary-pattern=0xC2
#include "case.h"
#include <pthread.h>

static const char *source = "kernel void work(global int *data, int n, int round) {\n"
                            "    int i = get_global_id(0);\n"
                            "    if (i < n) data[i] = i + round;\n"
                            "}\n";

static Case c;
static int bad;

static void *run(void *argument) {
    long number = (long)argument;
    cl_int code;
    cl_command_queue queue = clCreateCommandQueue(c.context, c.device, 0, &code);
    OK(code);
    cl_kernel kernel = kernel_of(&c, "work");
    for (int round = 0; round < 200; round++) {
        int size = 1 + (round * 37 + (int)number * 101) % 500, n = size, last = -1;
        if (bad && number == 2 && round == 117)
            n++;
        cl_mem data = buffer_of(&c, CL_MEM_READ_WRITE, size * sizeof(int), NULL);
        ARGUMENT(kernel, 0, data);
        ARGUMENT(kernel, 1, n);
        ARGUMENT(kernel, 2, round);
        size_t global = 512;
        cl_event event;
        OK(clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &global, NULL, 0, NULL, &event)); // BUG
        OK(clEnqueueReadBuffer(queue, data, CL_TRUE, (size - 1) * sizeof(int), sizeof(int), &last, 1, &event, NULL));
        MUST(last == size - 1 + round);
        OK(clReleaseEvent(event));
        OK(clReleaseMemObject(data));
    }
    OK(clReleaseKernel(kernel));
    OK(clReleaseCommandQueue(queue));
    return NULL;
}

int main(int count, char **arguments) {
    bad = is_bad(count, arguments);
    c = open_case(source);
    pthread_t threads[4];
    for (long i = 0; i < 4; i++)
        MUST(pthread_create(&threads[i], NULL, run, (void *)i) == 0);
    for (int i = 0; i < 4; i++)
        MUST(pthread_join(threads[i], NULL) == 0);
    puts("done");
    close_case(&c);
    return 0;
}

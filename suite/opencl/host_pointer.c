// bug: a kernel overruns memory of the host that was made a buffer
// expect: rule=canary-overwritten kernel=add argument=data at=4 size=800
#include "case.h"

static const char *source = "kernel void add(global int *data, int value, int extra) {\n"
                            "    int i = get_global_id(0);\n"
                            "    data[i] += value;\n"
                            "    if (i == 0 && extra) data[get_global_size(0) + 1] = value;\n"
                            "}\n";

int main(int count, char **arguments) {
    int extra = is_bad(count, arguments);
    int *data = aligned_alloc(4096, 4096);
    MUST(data);
    for (int i = 0; i < 1024; i++)
        data[i] = i;
    Case c = open_with(source, CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE);
    cl_int code;
    cl_command_queue other = clCreateCommandQueue(c.context, c.device, 0, &code);
    OK(code);
    cl_kernel kernel = kernel_of(&c, "add");
    cl_mem buffer = buffer_of(&c, CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR, 800, data);
    void *pointer;
    OK(clGetMemObjectInfo(buffer, CL_MEM_HOST_PTR, sizeof pointer, &pointer, NULL));
    MUST(pointer == data);
    size_t global = 200;
    cl_event events[8];
    // A chain over two queues, held together by nothing but events.
    for (int i = 0; i < 8; i++) {
        int value = 1 << i;
        ARGUMENT(kernel, 0, buffer);
        ARGUMENT(kernel, 1, value);
        ARGUMENT(kernel, 2, extra);
        OK(clEnqueueNDRangeKernel(i % 2 ? other : c.queue, kernel, 1, NULL, &global, NULL, i > 0, // BUG
                                  i > 0 ? &events[i - 1] : NULL, &events[i]));
        OK(clFlush(i % 2 ? other : c.queue));
    }
    int *mapped = clEnqueueMapBuffer(c.queue, buffer, CL_TRUE, CL_MAP_READ, 0, 800, 1, &events[7], NULL, &code);
    OK(code);
    MUST(mapped == data);
    for (int i = 0; i < 200; i++)
        MUST(data[i] == i + 255);
    for (int i = 202; i < 1024; i++)
        MUST(data[i] == i);
    OK(clEnqueueUnmapMemObject(c.queue, buffer, mapped, 0, NULL, NULL));
    OK(clFinish(c.queue));
    print_sum(data, 200);
    for (int i = 0; i < 8; i++)
        OK(clReleaseEvent(events[i]));
    OK(clReleaseMemObject(buffer));
    OK(clReleaseKernel(kernel));
    OK(clReleaseCommandQueue(other));
    close_case(&c);
    free(data);
    return 0;
}

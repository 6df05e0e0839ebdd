// bug: a kernel writes before the start of fine-grained shared virtual memory
// expect: rule=canary-overwritten kernel=count_down argument=data at=-1 size=256
#include "case.h"

static const char *source = "kernel void count_down(global int *data, int last) {\n"
                            "    for (int i = 63; i >= last; i--) data[i] = i + 1;\n"
                            "}\n";

int main(int count, char **arguments) {
    int last = is_bad(count, arguments) ? -1 : 0;
    Case c = open_case(source);
    NEEDS(has_svm(&c, CL_DEVICE_SVM_FINE_GRAIN_BUFFER), "fine-grained shared virtual memory");
    cl_kernel kernel = kernel_of(&c, "count_down");
    int *data = clSVMAlloc(c.context, CL_MEM_READ_WRITE | CL_MEM_SVM_FINE_GRAIN_BUFFER, 64 * sizeof(int), 64);
    MUST(data && (size_t)data % 64 == 0);
    memset(data, 0, 64 * sizeof(int));
    OK(clSetKernelArgSVMPointer(kernel, 0, data));
    ARGUMENT(kernel, 1, last);
    size_t global = 1;
    OK(clEnqueueNDRangeKernel(c.queue, kernel, 1, NULL, &global, NULL, 0, NULL, NULL)); // BUG
    OK(clFinish(c.queue));
    print_sum(data, 64);
    void *pointers[1] = {data};
    OK(clEnqueueSVMFree(c.queue, 1, pointers, NULL, NULL, 0, NULL, NULL));
    OK(clFinish(c.queue));
    OK(clReleaseKernel(kernel));
    close_case(&c);
    return 0;
}

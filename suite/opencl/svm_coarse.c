// bug: a kernel writes past the end of coarse-grained shared virtual memory
// expect: rule=canary-overwritten kernel=square argument=data at=4 size=400
#include "case.h"

static const char *source = "kernel void square(global int *data, int n) {\n"
                            "    int i = get_global_id(0);\n"
                            "    if (i < 100) data[i] = data[i] * data[i];\n"
                            "    if (i == n) data[i] = 1;\n"
                            "}\n";

int main(int count, char **arguments) {
    int n = is_bad(count, arguments) ? 101 : 99;
    int before, bytes = 100 * sizeof(int);
    Case c = open_case(source);
    NEEDS(has_svm(&c, CL_DEVICE_SVM_COARSE_GRAIN_BUFFER), "shared virtual memory");
    cl_kernel kernel = kernel_of(&c, "square");
    int *data = clSVMAlloc(c.context, CL_MEM_READ_WRITE, bytes, 0);
    MUST(data && (size_t)data % 128 == 0);
    OK(clEnqueueSVMMap(c.queue, CL_TRUE, CL_MAP_WRITE, data, bytes, 0, NULL, NULL));
    for (int i = 0; i < 100; i++)
        data[i] = i;
    OK(clEnqueueSVMUnmap(c.queue, data, 0, NULL, NULL));
    OK(clSetKernelArgSVMPointer(kernel, 0, data));
    ARGUMENT(kernel, 1, n);
    size_t global = 128;
    OK(clEnqueueNDRangeKernel(c.queue, kernel, 1, NULL, &global, NULL, 0, NULL, NULL)); // BUG
    OK(clEnqueueSVMMap(c.queue, CL_TRUE, CL_MAP_READ, data, bytes, 0, NULL, NULL));
    before = data[98];
    OK(clEnqueueSVMUnmap(c.queue, data, 0, NULL, NULL));
    OK(clFinish(c.queue));
    printf("%d\n", before);
    clSVMFree(c.context, data);
    OK(clReleaseKernel(kernel));
    close_case(&c);
    return 0;
}

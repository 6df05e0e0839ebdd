// bug: a kernel overruns shared memory that it finds through a pointer in other shared memory
// expect: rule=canary-overwritten kernel=follow at=0 size=160
#include "case.h"

static const char *source = "typedef struct { global int *values; int length; } List;\n"
                            "kernel void follow(global List *list) {\n"
                            "    for (int i = 0; i < list->length; i++) list->values[i] = 5 * i;\n"
                            "}\n";

typedef struct {
    int *values;
    int length;
} List;

int main(int count, char **arguments) {
    Case c = open_case(source);
    NEEDS(has_svm(&c, CL_DEVICE_SVM_COARSE_GRAIN_BUFFER), "shared virtual memory");
    cl_kernel kernel = kernel_of(&c, "follow");
    List *list = clSVMAlloc(c.context, CL_MEM_READ_WRITE, sizeof(List), 0);
    int *values = clSVMAlloc(c.context, CL_MEM_READ_WRITE, 40 * sizeof(int), 0);
    MUST(list && values);
    OK(clEnqueueSVMMap(c.queue, CL_TRUE, CL_MAP_WRITE, list, sizeof(List), 0, NULL, NULL));
    list->values = values;
    list->length = is_bad(count, arguments) ? 41 : 40;
    OK(clEnqueueSVMUnmap(c.queue, list, 0, NULL, NULL));
    OK(clSetKernelArgSVMPointer(kernel, 0, list));
    void *reached[1] = {values};
    OK(clSetKernelExecInfo(kernel, CL_KERNEL_EXEC_INFO_SVM_PTRS, sizeof reached, reached));
    size_t global = 1;
    OK(clEnqueueNDRangeKernel(c.queue, kernel, 1, NULL, &global, NULL, 0, NULL, NULL)); // BUG
    OK(clEnqueueSVMMap(c.queue, CL_TRUE, CL_MAP_READ, values, 40 * sizeof(int), 0, NULL, NULL));
    print_sum(values, 40);
    OK(clEnqueueSVMUnmap(c.queue, values, 0, NULL, NULL));
    OK(clFinish(c.queue));
    clSVMFree(c.context, values);
    clSVMFree(c.context, list);
    OK(clReleaseKernel(kernel));
    close_case(&c);
    return 0;
}

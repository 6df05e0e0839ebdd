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
    cl_kernel kernel = kernel_of(&c, "follow");
    cl_svm_mem_flags flags = CL_MEM_READ_WRITE | CL_MEM_SVM_FINE_GRAIN_BUFFER;
    List *list = clSVMAlloc(c.context, flags, sizeof(List), 0);
    int *values = clSVMAlloc(c.context, flags, 40 * sizeof(int), 0);
    MUST(list && values);
    list->values = values;
    list->length = is_bad(count, arguments) ? 41 : 40;
    OK(clSetKernelArgSVMPointer(kernel, 0, list));
    void *reached[1] = {values};
    OK(clSetKernelExecInfo(kernel, CL_KERNEL_EXEC_INFO_SVM_PTRS, sizeof reached, reached));
    size_t global = 1;
    OK(clEnqueueNDRangeKernel(c.queue, kernel, 1, NULL, &global, NULL, 0, NULL, NULL)); // BUG
    OK(clFinish(c.queue));
    print_sum(values, 40);
    clSVMFree(c.context, values);
    clSVMFree(c.context, list);
    OK(clReleaseKernel(kernel));
    close_case(&c);
    return 0;
}

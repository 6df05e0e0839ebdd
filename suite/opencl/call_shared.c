// bug: the host copies and fills past the end of shared virtual memory, which no platform looks at
// expect: rule=copy-out-of-bounds-write call=clEnqueueSVMMemcpy size=100
// expect: rule=copy-out-of-bounds-write call=clEnqueueSVMMemFill size=100
#include "case.h"

static const char *source = "kernel void first(global char *data) { data[0] = 1; }\n";

int main(int count, char **arguments) {
    int bad = is_bad(count, arguments);
    char host[128] = {0}, zero = 0;
    Case c = open_case(source);
    NEEDS(has_svm(&c, CL_DEVICE_SVM_COARSE_GRAIN_BUFFER), "shared virtual memory");
    cl_kernel kernel = kernel_of(&c, "first");
    char *data = clSVMAlloc(c.context, CL_MEM_READ_WRITE, 100, 0);
    MUST(data);
    clEnqueueSVMMemcpy(c.queue, CL_TRUE, data + 50, host, 50 + bad, 0, NULL, NULL); // BUG
    clEnqueueSVMMemFill(c.queue, data, &zero, 1, 100 + bad, 0, NULL, NULL);         // BUG
    OK(clSetKernelArgSVMPointer(kernel, 0, data));
    size_t global = 1;
    OK(clEnqueueNDRangeKernel(c.queue, kernel, 1, NULL, &global, NULL, 0, NULL, NULL));
    OK(clEnqueueSVMMemcpy(c.queue, CL_TRUE, host, data, 100, 0, NULL, NULL));
    printf("%d %d\n", host[0], host[99]);
    clSVMFree(c.context, data);
    OK(clReleaseKernel(kernel));
    close_case(&c);
    return 0;
}

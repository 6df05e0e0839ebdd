// bug: the global size is rounded up to whole work-groups and the kernel does not look (Rodinia's kmeans)
// expect: rule=canary-overwritten kernel=kmeans_swap argument=features_swap at=0
#include "case.h"

static const char *source =
    "kernel void kmeans_swap(global const float *features, global float *features_swap, int npoints,\n"
    "                        int nfeatures, int guarded) {\n"
    "    unsigned point = get_global_id(0);\n"
    "    if (guarded && point >= npoints) return;\n"
    "    for (int i = 0; i < nfeatures; i++)\n"
    "        features_swap[i * npoints + point] = point < npoints ? features[point * nfeatures + i] : -1.0f;\n"
    "}\n";

int main(int count, char **arguments) {
    int npoints = 1000, nfeatures = 3, guarded = !is_bad(count, arguments);
    static float data[3000], result[3000];
    for (int i = 0; i < 3000; i++)
        data[i] = i;
    Case c = open_case(source);
    cl_kernel kernel = kernel_of(&c, "kmeans_swap");
    cl_mem features = buffer_of(&c, CL_MEM_READ_ONLY | CL_MEM_COPY_HOST_PTR, sizeof data, data);
    cl_mem swapped = buffer_of(&c, CL_MEM_READ_WRITE, sizeof data, NULL);
    ARGUMENT(kernel, 0, features);
    ARGUMENT(kernel, 1, swapped);
    ARGUMENT(kernel, 2, npoints);
    ARGUMENT(kernel, 3, nfeatures);
    ARGUMENT(kernel, 4, guarded);
    size_t global = 1024, local = 256;
    OK(clEnqueueNDRangeKernel(c.queue, kernel, 1, NULL, &global, &local, 0, NULL, NULL)); // BUG
    OK(clEnqueueReadBuffer(c.queue, swapped, CL_TRUE, 0, sizeof result, result, 0, NULL, NULL));
    printf("%.0f %.0f\n", result[1], result[999]);
    OK(clReleaseMemObject(features));
    OK(clReleaseMemObject(swapped));
    OK(clReleaseKernel(kernel));
    close_case(&c);
    return 0;
}

// bug: with OpenCL 1.1's calls, a kernel writes below the last row of an image that has content
// expect: rule=canary-overwritten kernel=mark argument=out at=0
#include "case.h"

static const char *source = "kernel void mark(write_only image2d_t out, int y) {\n"
                            "    write_imageui(out, (int2)(get_global_id(0), y), (uint4)(9, 8, 7, 6));\n"
                            "}\n";

int main(int count, char **arguments) {
    int y = is_bad(count, arguments) ? 16 : 3;
    unsigned char pixels[16][32][4];
    memset(pixels, 1, sizeof pixels);
    Case c = open_case(source);
    NEEDS(has_images(&c), "images");
    cl_kernel kernel = kernel_of(&c, "mark");
    cl_image_format format = {CL_RGBA, CL_UNSIGNED_INT8};
    cl_int code;
    cl_mem out = clCreateImage2D(c.context, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, &format, 32, 16, 0, pixels, &code);
    OK(code);
    ARGUMENT(kernel, 0, out);
    ARGUMENT(kernel, 1, y);
    size_t global = 32, origin[3] = {0, 0, 0}, region[3] = {32, 16, 1};
    OK(clEnqueueNDRangeKernel(c.queue, kernel, 1, NULL, &global, NULL, 0, NULL, NULL)); // BUG
    OK(clEnqueueReadImage(c.queue, out, CL_TRUE, origin, region, 0, 0, pixels, 0, NULL, NULL));
    // What the kernel did not write is what it was.
    MUST(pixels[4][0][0] == 1 && pixels[15][31][3] == 1);
    printf("%d %d\n", pixels[3][31][0], pixels[3][31][3]);
    OK(clReleaseMemObject(out));
    OK(clReleaseKernel(kernel));
    close_case(&c);
    return 0;
}

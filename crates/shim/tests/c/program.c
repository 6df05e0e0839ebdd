/* Finds the driver as the CUDA runtime does, and does what its argument says. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void *library;

static void *symbol(const char *name) {
    void *found = dlsym(library, name);
    if (!found) {
        printf("no %s\n", name);
        exit(1);
    }
    return found;
}

typedef int (*Resolve)(const char *, void **, int, unsigned long long, int *);

static void query(const char *name, int version, unsigned long long flags) {
    Resolve resolve = (Resolve)symbol("cuGetProcAddress_v2");
    void *function = (void *)-1;
    int status = -1;
    int result = resolve(name, &function, version, flags, &status);
    Dl_info info = {0};
    if (!result && function) dladdr(function, &info);
    printf("%s@%d/%llu: %d %d %s%s\n", name, version, flags, result, status,
           info.dli_fname && strstr(info.dli_fname, "ringfence") ? "our " : "",
           result || !function ? "-" : info.dli_sname ? info.dli_sname : "hidden");
}

static void *first_call(void *barrier) {
    int version = 0;
    pthread_barrier_wait(barrier);
    int result = ((int (*)(int *))symbol("cuDriverGetVersion"))(&version);
    return (void *)(long)(result == 0 && version == 13000);
}

int main(int count, char **arguments) {
    (void)count;
    const char *what = arguments[1];
    setvbuf(stdout, 0, _IONBF, 0);
    library = dlopen("libcuda.so.1", RTLD_NOW);
    if (!library) {
        printf("no driver: %s\n", dlerror());
        return 1;
    }
    int (*init)(unsigned) = (int (*)(unsigned))symbol("cuInit");
    if (!strcmp(what, "launch")) {
        int (*launch)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void *,
                      void *) = (void *)symbol("cuLaunchKernel");
        printf("%d\n", launch((void *)0x10, 1, 2, 3, 4, 5, 6, 7, (void *)0x20, (void *)0x30, (void *)0x40));
    } else if (!strcmp(what, "float")) {
        int (*bias)(void *, float) = (void *)symbol("cuTexRefSetMipmapLevelBias");
        printf("%d\n", bias((void *)0x10, 1.5f));
    } else if (!strcmp(what, "resolve")) {
        query("", 13000, 0);
        query("cuMemAlloc", 3019, 0);
        query("cuMemAlloc", 3020, 0);
        query("cuCtxGetDevice", 2000, 0);
        query("cuCtxGetDevice", 13000, 0);
        query("cuMemcpyHtoD", 13000, 0);
        query("cuMemcpyHtoD", 13000, 2);
        query("cuMemFreeAsync", 13000, 0);
        query("cuMemFree", 13000, 0);
        query("cuMemFree", 13010, 0);
        query("cuFuture", 13010, 0);
        query("cuNothing", 13000, 0);
        query("cuInit", 99000, 0);
        query("cuGetProcAddress", 12000, 0);
    } else if (!strcmp(what, "missing")) {
        int (*missing)(void) = (void *)symbol("cuArrayDestroy");
        printf("%d %d\n", missing(), missing());
    } else if (!strcmp(what, "init")) {
        printf("%d\n", init(0));
    } else if (!strcmp(what, "threads")) {
        enum { THREADS = 16 };
        pthread_t threads[THREADS];
        pthread_barrier_t barrier;
        pthread_barrier_init(&barrier, 0, THREADS);
        long good = 0;
        for (int i = 0; i < THREADS; i++) pthread_create(&threads[i], 0, first_call, &barrier);
        for (int i = 0; i < THREADS; i++) {
            void *result;
            pthread_join(threads[i], &result);
            good += (long)result;
        }
        printf("%ld\n", good);
    } else if (!strcmp(what, "memory")) {
        int (*allocate)(unsigned long long *, size_t) = (void *)symbol("cuMemAlloc_v2");
        int (*range)(unsigned long long *, size_t *, unsigned long long) = (void *)symbol("cuMemGetAddressRange_v2");
        int (*release)(unsigned long long) = (void *)symbol("cuMemFree_v2");
        unsigned long long pointer = 0;
        size_t size = 0;
        init(0);
        allocate(&pointer, 1024);
        range(0, &size, pointer + 100);
        printf("size %zu\n", size);
        release(pointer);
    } else if (!strcmp(what, "kernel")) {
        static const char text[] =
            ".version 8.0\n.target sm_75\n.address_size 64\n"
            ".visible .global .align 4 .b8 table[64];\n"
            ".visible .entry scale(.param .u64 p, .param .u32 n)\n{\n"
            ".reg .b32 %r<3>;\n.reg .b64 %rd<4>;\n"
            "ld.param.u64 %rd1, [p];\ncvta.to.global.u64 %rd2, %rd1;\nmov.u32 %r1, %tid.x;\n"
            "mul.wide.u32 %rd3, %r1, 4;\nadd.s64 %rd2, %rd2, %rd3;\nst.global.u32 [%rd2], %r1;\nret;\n}\n";
        int (*allocate)(unsigned long long *, size_t) = (void *)symbol("cuMemAlloc_v2");
        int (*load)(void **, const void *) = (void *)symbol("cuModuleLoadData");
        int (*get)(void **, void *, const char *) = (void *)symbol("cuModuleGetFunction");
        int (*set)(void *, int, int) = (void *)symbol("cuFuncSetAttribute");
        int (*launch)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void *,
                      void *) = (void *)symbol("cuLaunchKernel");
        struct { unsigned long long p; unsigned n; } block = {0, 42};
        void *module, *function;
        init(0);
        allocate(&block.p, 1000);
        printf("load %d\n", load(&module, text));
        printf("get %d %d\n", get(&function, module, "scale"), get(&(void *){0}, module, "nothing"));
        set(function, 8, 4096);
        void *pointers[] = {&block.p, &block.n};
        printf("launch %d\n", launch(function, 1, 1, 1, 32, 1, 1, 0, 0, pointers, 0));
        size_t size = 12;
        void *extra[] = {(void *)1, &block, (void *)2, &size, 0};
        block.p += 16;
        printf("launch %d\n", launch(function, 1, 1, 1, 32, 1, 1, 0, 0, 0, extra));
        printf("launch %d\n", launch(function, 1, 1, 1, 1024, 1, 1, 0, 0, pointers, 0));
    } else if (!strcmp(what, "fork")) {
        init(0);
        pid_t child = fork();
        if (!child) {
            int version = 0;
            ((int (*)(int *))symbol("cuDriverGetVersion"))(&version);
            printf("child %d %d\n", version, ((int (*)(void))symbol("cuCtxSynchronize"))());
            exit(0);
        }
        int status;
        waitpid(child, &status, 0);
        printf("parent %d\n", status);
    } else {
        init(0);
        if (!strcmp(what, "quick")) _exit(5);
        if (!strcmp(what, "abort")) abort();
        if (!strcmp(what, "segfault")) raise(SIGSEGV);
        if (!strcmp(what, "terminate")) kill(getpid(), SIGTERM);
    }
    return 0;
}

//! `printf`, `malloc` and `free` in kernels of tenants.

use super::support::library;
use super::{GOOD, HOSTILE, MEMORY, Raw, SOCKET, as_alone, inline, output, tenant};
use protocol::{Limit, Place, Reply, Request, Unprinted};
use std::process::Command;

/// The lines of a text, in order: blocks print in any.
fn sorted(text: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    lines
}

#[test]
fn every_conversion_prints_as_alone() {
    let source = r#"
#include <cstdio>
__device__ char word[8] = "device";
__device__ char fixed[8] = "const";
__global__ void say(const char *none, int *results) {
    char local[8] = {'l', 'o', 'c', 'a', 'l', 0};
    int i = -7;
    results[0] = printf("%d %i %u %o %x %X %c|%5d|%-5d|%05d|%+d|% d|%#x|%#o|%.3d\n",
        i, i, 7, 8, 255, 255, 'c', i, i, i, 7, 7, 255, 8, 7);
    results[1] = printf("%hd %hu %ld %lu %lld %llu %lx\n", (short)i, (short)9, -1l, 1ul, -1ll, ~0ull, 255l);
    results[2] = printf("%f %F %e %E %g %G %a %A|%8.2f|%-8.1e|%.0f|%g\n", 1.5, 2.5, 3.5e10, 4.5e-10, 5.5, 1e20, 1.5, 2.0, 3.14159, 2.5, 0.5, 0.0001f);
    results[3] = printf("%s %s %s %s|%8s|%-8s|%.2s|%*d|%-*d|\n", "text", word, fixed, local, "right", "left", "cut", 6, i, 6, i);
    results[4] = printf("%p %p %s %5%% %%\n", none, (void *)0x1234, none);
    results[5] = printf("%hhd %zu %jd %td %.*f %y %d\n", 42);
    results[6] = printf("no arguments\n");
    results[7] = printf("");
    printf("no newline ");
    printf("at the end: %d %s %d %s\n", 1, "a", 2, "b");
}
int main() {
    int *results, host[8];
    cudaMalloc(&results, sizeof host);
    say<<<1, 1>>>(nullptr, results);
    printf("%d\n", cudaDeviceSynchronize());
    cudaMemcpy(host, results, sizeof host, cudaMemcpyDeviceToHost);
    for (int result : host) printf("%d ", result);
    printf("\n");
}
"#;
    let stdout = as_alone(source);
    for part in [
        "-7 -7 7 10 ff FF c|   -7|-7   |-0007|+7| 7|0xff|010|007\n",
        "text device const local|   right|left    |cu|    -7|-7    |\n",
        "(nil) 0x1234 (null) ",
        "%hhd %zu %jd %td %.*f %y 42\n",
        "\n15 7 12 11 3 1 0 0 \n",
    ] {
        assert!(stdout.contains(part), "`{part}` is not in: {stdout}");
    }
}

#[test]
fn what_kernels_print_is_in_order_with_what_the_program_prints() {
    let source = r#"
#include <cstdio>
__global__ void say(const char *, int n) { printf("kernel %d\n", n); }
int main() {
    int *place, host = 0;
    cudaStream_t stream;
    cudaEvent_t event;
    cudaMalloc(&place, 4);
    cudaStreamCreate(&stream);
    cudaEventCreate(&event);
    for (int i = 0; i < 3; i++) {
        printf("before %d\n", i);
        say<<<1, 1>>>(0, 10 * i);
        cudaDeviceSynchronize();
        printf("device\n");
        say<<<1, 1, 0, stream>>>(0, 10 * i + 1);
        cudaStreamSynchronize(stream);
        printf("stream\n");
        say<<<1, 1>>>(0, 10 * i + 2);
        cudaEventRecord(event);
        cudaEventSynchronize(event);
        printf("event\n");
        say<<<1, 1>>>(0, 10 * i + 3);
        cudaMemcpy(&host, place, 4, cudaMemcpyDeviceToHost);
        printf("copy\n");
        say<<<1, 1>>>(0, 10 * i + 4);
        cudaMemcpy(place, &host, 4, cudaMemcpyHostToDevice);
        cudaDeviceSynchronize();
    }
    for (int i = 0; i < 200; i++) say<<<1, 1>>>(0, 1000 + i);
    cudaDeviceSynchronize();
    say<<<1, 1>>>(0, 99);
    cudaDeviceReset();
    printf("reset\n");
}
"#;
    let stdout = as_alone(source);
    let first = "before 0\nkernel 0\ndevice\nkernel 1\nstream\nkernel 2\nevent\nkernel 3\ncopy\n";
    assert!(stdout.starts_with(first), "{stdout}");
    assert!(
        stdout.ends_with("kernel 1199\nkernel 99\nreset\n"),
        "{stdout}"
    );
}

/// Many threads, and a kernel that runs on while another one's output is shown.
#[test]
fn threads_of_all_blocks_print() {
    let source = r#"
#include <cstdio>
__device__ volatile int stop;
__global__ void say(int round) {
    for (int i = 0; i < 3; i++) printf("%d: block %d thread %d: %s %.1f\n", i + round, blockIdx.x, threadIdx.x, "text", i * 0.5);
}
__global__ void hold() { while (!stop) {} printf("held\n"); }
__global__ void release() { stop = 1; }
int main() {
    cudaStream_t one, two;
    cudaStreamCreateWithFlags(&one, cudaStreamNonBlocking);
    cudaStreamCreateWithFlags(&two, cudaStreamNonBlocking);
    for (int round = 0; round < 4; round++) say<<<20, 48>>>(round);
    cudaDeviceSynchronize();
    hold<<<1, 1, 0, one>>>();
    say<<<2, 2, 0, two>>>(100);
    cudaStreamSynchronize(two);
    printf("0 of two\n");
    say<<<2, 2, 0, two>>>(200);
    release<<<1, 1, 0, two>>>();
    printf("%d\n", cudaDeviceSynchronize());
}
"#;
    let program = inline(source);
    let (stdout, stderr, _) = output(&program, &[]);
    let alone = Command::new(&program)
        .env("LD_PRELOAD", library())
        .env("RINGFENCE_OPTIONS", "device=cpu:check=off")
        .env_remove("RINGFENCE_SETTINGS")
        .output()
        .expect("start the program");
    let alone = String::from_utf8_lossy(&alone.stdout).into_owned();
    assert_eq!(sorted(&stdout), sorted(&alone), "{stderr}");
    assert_eq!(stdout.lines().count(), 4 * 20 * 48 * 3 + 2 * 12 + 3);
    let shown = stdout.split("0 of two").next().expect("a part");
    assert_eq!(shown.matches("\n100: ").count(), 4, "{stderr}");
    assert_eq!(stderr, "");
}

#[test]
fn what_finds_no_room_is_lost_and_said() {
    let source = r#"
#include <cstdio>
__global__ void say(int n) { for (int i = 0; i < n; i++) printf("line %d of %d\n", i, n); }
int main() {
    size_t size = 0;
    printf("%d ", cudaDeviceGetLimit(&size, cudaLimitPrintfFifoSize));
    printf("%zu\n", size);
    printf("%d ", cudaDeviceSetLimit(cudaLimitPrintfFifoSize, 4096));
    cudaDeviceGetLimit(&size, cudaLimitPrintfFifoSize);
    printf("%zu\n", size);
    for (int i = 0; i < 3; i++) {
        say<<<1, 1>>>(1000);
        printf("%d\n", cudaDeviceSynchronize());
        say<<<1, 1>>>(3);
        cudaDeviceSynchronize();
    }
    printf("%d\n", cudaDeviceSetLimit(cudaLimitPrintfFifoSize, 1 << 20));
}
"#;
    let (stdout, stderr, output) = output(&inline(source), &[]);
    assert!(output.status.success(), "{stdout} {stderr}");
    assert!(
        stdout.starts_with("0 7340032\n0 4096\nline 0 of 1000\n"),
        "{stdout}"
    );
    assert!(stdout.ends_with("\n1\n"), "kernels have used it: {stdout}");
    assert_eq!(
        stdout
            .matches("line 0 of 3\nline 1 of 3\nline 2 of 3\n")
            .count(),
        3
    );
    let whole = stdout.matches(" of 1000\n").count();
    assert!((3 * 40..3 * 200).contains(&whole), "{whole}");
    let lost = 1000 - whole / 3;
    let said = format!("{lost} calls of printf in kernels found no room");
    assert_eq!(stderr.matches(&said).count(), 3, "{stderr}");
}

#[test]
fn kernels_allocate_and_free_as_alone() {
    let source = r#"
#include <cstdio>
#include <cstdlib>
struct Node {
    Node *next;
    int value;
    __device__ Node(Node *next, int value) : next(next), value(value) {}
    __device__ ~Node() { value = -1; }
};
__device__ Node *kept[64];
__global__ void make(int round) {
    Node *list = nullptr;
    for (int i = 0; i < 20; i++) list = new Node(list, i * round + threadIdx.x);
    kept[threadIdx.x] = list;
    int *plain = (int *)malloc(1000);
    for (int i = 0; i < 250; i++) plain[i] = i;
    free(plain);
}
__global__ void sum(int *sums) {
    int sum = 0;
    for (Node *at = kept[threadIdx.x]; at;) {
        sum = sum * 3 + at->value;
        Node *next = at->next;
        delete at;
        at = next;
    }
    int *many = new int[10];
    for (int i = 0; i < 10; i++) many[i] = sum;
    sums[threadIdx.x] = many[9];
    delete[] many;
    if (threadIdx.x == 0) sums[64] = malloc(1ull << 40) == nullptr;
}
int main() {
    int *sums, host[65];
    size_t size;
    cudaDeviceGetLimit(&size, cudaLimitMallocHeapSize);
    printf("%zu\n", size);
    printf("%d\n", cudaDeviceSetLimit(cudaLimitMallocHeapSize, 4 << 20));
    cudaMalloc(&sums, sizeof host);
    for (int round = 0; round < 50; round++) {
        make<<<1, 64>>>(round);
        sum<<<1, 64>>>(sums);
        printf("%d:", cudaMemcpy(host, sums, sizeof host, cudaMemcpyDeviceToHost));
        for (int value : host) printf(" %d", value);
        printf("\n");
    }
}
"#;
    let stdout = as_alone(source);
    assert!(stdout.starts_with("8388608\n0\n0: "), "{stdout}");
    assert_eq!(stdout.lines().count(), 52);
}

#[test]
fn tenants_that_print_at_once_get_their_own_text() {
    let source = r#"
#include <cstdio>
#include <cstdlib>
__global__ void say(int who, int round) { printf("%d %d %d\n", who, round, threadIdx.x); }
int main(int, char **arguments) {
    for (int round = 0; round < 40; round++) {
        say<<<1, 32>>>(atoi(arguments[1]), round);
        if (round % 4 == 3) cudaDeviceSynchronize();
    }
}
"#;
    let program = inline(source);
    let all = ["1", "2", "3"].map(|who| {
        let started = tenant(&program, &[who], &SOCKET, "").spawn();
        (who, started.expect("start the program"))
    });
    for (who, started) in all {
        let output = started.wait_with_output().expect("it ends");
        let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
        let lines = (0..40).flat_map(|round| (0..32).map(move |i| format!("{who} {round} {i}\n")));
        assert_eq!(stdout, lines.collect::<String>());
        assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    }
}

/// The kernel looks for the buffer in all of its memory, and writes into its head
/// and its records whatever could lead a reader astray.
#[test]
fn a_tenant_that_overwrites_the_buffer_harms_itself_alone() {
    let source = r#"
#include <cstdio>
#include <cstdlib>
typedef unsigned long long u64;
__global__ void say(int n) { printf("said %d %s\n", n, "text"); }
__global__ void forge(char *own, int which, u64 *found) {
    u64 start = (u64)own & ~0x3ffffffull;
    u64 *head = 0;
    for (u64 at = start; at < start + 0x4000000 && !head; at += 512) {
        u64 *words = (u64 *)at;
        if (words[1] == 7340032 && words[2] - start < 0x4000000 && words[2] % 512 == 0) head = words;
    }
    *found = (u64)head;
    if (!head) return;
    unsigned *record = (unsigned *)head[2];
    switch (which) {
    case 0: head[0] = ~0ull; break;
    case 1: head[0] = 0x7fffffffffffffffull; head[3] = ~0ull; break;
    case 2: head[1] = ~0ull; head[2] = 0x10; break;
    case 3: head[2] = ~0ull - 8; break;
    case 4: record[0] = 0xffffffff; head[0] = 64; break;
    case 5: record[0] = 24; record[1] = 0xfffffff0; head[0] = 24; break;
    case 6: record[0] = 40; record[1] = 8; record[2] = 0x10000; record[3] = 0x10000; head[0] = 40; break;
    case 7: for (int i = 0; i < 100000; i++) record[i] = i * 2654435761u; head[0] = 400000; break;
    case 8:
        record[0] = 40; record[1] = 12; record[2] = 8; record[3] = 0;
        record[4] = 0x70257325; record[5] = 0x73257325; record[6] = 0x0a732573;
        record[8] = 0x1234; record[9] = 0x5678; head[0] = 40; break;
    case 9: for (int i = 0; i < 20; i++) record[i] = 0; head[0] = 80; break;
    case 10: for (int i = 0; i < 1835008; i += 32) record[i] = 0x20; head[0] = 7340032; break;
    }
}
int main(int, char **arguments) {
    u64 *found, host;
    int which = atoi(arguments[1]);
    cudaMalloc(&found, 8);
    for (int round = 0; round < 3; round++) {
        say<<<1, 1>>>(round);
        printf("%d\n", cudaDeviceSynchronize());
        forge<<<1, 1>>>((char *)found, which, found);
        say<<<1, 1>>>(100 + round);
        printf("%d\n", cudaDeviceSynchronize());
        cudaMemcpy(&host, found, 8, cudaMemcpyDeviceToHost);
        if (!host) printf("the buffer was not found\n");
    }
    say<<<1, 1>>>(1000);
    printf("%d\n", cudaDeviceSynchronize());
}
"#;
    let program = inline(source);
    let (expected, stderr, _) = output(&GOOD, &["20"]);
    assert!(expected.ends_with(" ok\n"), "{expected} {stderr}");
    let mut other = Raw::connect(0).expect("welcome");
    // All at once, and a neighbour beside them.
    let all: Vec<_> = (0..11)
        .map(|which: u32| {
            let started = tenant(&program, &[&which.to_string()], &SOCKET, "").spawn();
            (which, started.expect("start the program"))
        })
        .collect();
    let (stdout, stderr, _) = output(&GOOD, &["20"]);
    assert_eq!(stdout, expected, "{stderr}");
    let mut dropped = 0;
    for (which, hostile) in all {
        let hostile = hostile.wait_with_output().expect("it ends");
        let stdout = String::from_utf8_lossy(&hostile.stdout).into_owned();
        let stderr = String::from_utf8_lossy(&hostile.stderr).into_owned();
        assert!(hostile.status.success(), "{which}: {stdout} {stderr}");
        // What was printed before a forgery is there.
        assert!(stdout.starts_with("said 0 text\n0\n"), "{which}: {stdout}");
        dropped += usize::from(stderr.contains("a kernel has overwritten"));
        // Records that it sends elsewhere may overwrite anything of its own, as
        // the counters of its threads that have failed.
        if which == 2 || which == 3 {
            continue;
        }
        assert!(!stdout.contains("not found"), "{which}: {stdout}");
        // Once it was read, all is as before.
        for round in 0..3 {
            let said = format!("said {round} text\n0\n");
            assert!(stdout.contains(&said), "{which}: {stdout} {stderr}");
        }
        assert!(
            stdout.ends_with("said 1000 text\n0\n"),
            "{which}: {stdout} {stderr}"
        );
        let synchronized = stdout.lines().filter(|line| *line == "0").count();
        assert_eq!(synchronized, 7, "{which}: {stdout}");
    }
    assert!(dropped >= 5, "{dropped}");
    assert_eq!(other.ask(&Request::Synchronize, &[]), Reply::Done);
    assert_eq!(other.ask(&Request::Printed, &[]), nothing_printed());
    let (stdout, stderr, _) = output(&HOSTILE, &["read"]);
    assert_eq!(stdout, "0\n", "{stderr}");
}

fn nothing_printed() -> Reply {
    Reply::Printed(Unprinted {
        is_idle: true,
        ..Unprinted::default()
    })
}

/// A kernel that prints and allocates, as a compiler writes it.
const PRINTS: &str = "
.version 8.0
.target sm_75
.address_size 64
.extern .func (.param .b32 r) vprintf (.param .b64 a, .param .b64 b);
.extern .func (.param .b64 r) malloc (.param .b64 a);
.global .align 1 .b8 text[4] = {104, 105, 10, 0};
.visible .entry say() {
    .reg .b64 %rd<4>;
    .reg .b32 %r<2>;
    mov.u64 %rd1, text;
    cvta.global.u64 %rd2, %rd1;
    {
        .param .b64 p0;
        st.param.b64 [p0], %rd2;
        .param .b64 p1;
        st.param.b64 [p1], 0;
        .param .b32 q;
        call.uni (q), vprintf, (p0, p1);
        ld.param.b32 %r1, [q];
    }
    {
        .param .b64 p0;
        st.param.b64 [p0], 100;
        .param .b64 q;
        call.uni (q), malloc, (p0);
        ld.param.b64 %rd3, [q];
    }
    ret;
}
";

/// A tenant is not told of what is Ringfence's, cannot reach it by copies, and
/// its limits are its own.
#[test]
fn buffer_and_heap_are_no_variables_of_the_program() {
    let mut raw = Raw::connect(0).expect("welcome");
    let print = Limit::Print;
    let ask = |raw: &mut Raw| raw.ask(&Request::GetLimit { limit: print }, &[]);
    assert_eq!(ask(&mut raw), Reply::Size(7 << 20));
    for bytes in [MEMORY + 1, u64::MAX, u64::MAX / 2] {
        for limit in [print, Limit::Heap] {
            let reply = raw.ask(&Request::SetLimit { limit, bytes }, &[]);
            assert_eq!(super::failed(&reply), Some(2), "{reply:?}");
        }
    }
    assert_eq!(raw.ask(&Request::Upload, PRINTS.as_bytes()), Reply::Done);
    let Reply::Loaded(loaded) = raw.ask(&Request::Load, &[]) else {
        panic!("not loaded");
    };
    assert!(loaded.prints);
    let names: Vec<&str> = loaded.variables.iter().map(|v| &*v.name).collect();
    assert_eq!(names, ["text"]);
    let own = loaded.variables[0].address;
    let first = own & !(MEMORY - 1);
    let mut readable = 0;
    for at in (first..first + MEMORY).step_by(16 << 10) {
        let from = Place::linear(at, 1);
        let reply = raw.ask(&Request::Read { stream: 0, from }, &[]);
        readable += usize::from(super::failed(&reply).is_none());
    }
    assert!(readable <= 1, "only `text` is the program's");
    // Before a launch the memory of both may change, and none is left over.
    let free = |raw: &mut Raw| match raw.ask(&Request::MemoryInfo, &[]) {
        Reply::Memory { free, .. } => free,
        reply => panic!("{reply:?}"),
    };
    let before = free(&mut raw);
    for bytes in [1 << 20, 0, 20 << 20, 7 << 20] {
        let set = Request::SetLimit {
            limit: print,
            bytes,
        };
        assert_eq!(raw.ask(&set, &[]), Reply::Done);
        assert_eq!(ask(&mut raw), Reply::Size(bytes));
    }
    assert_eq!(free(&mut raw), before);
    let launch = Request::Launch {
        kernel: loaded.kernels[0].kernel,
        stream: 0,
        grid: [1, 1, 1],
        block: [2, 1, 1],
        shared: 0,
        is_cooperative: false,
        parameters: Vec::new(),
    };
    assert_eq!(raw.ask(&launch, &[]), Reply::Done);
    assert_eq!(raw.ask(&Request::Synchronize, &[]), Reply::Done);
    let set = Request::SetLimit {
        limit: print,
        bytes: 1 << 20,
    };
    assert_eq!(super::failed(&raw.ask(&set, &[])), Some(1));
    let reply = raw.ask(&Request::Printed, &[]);
    assert_eq!(reply, nothing_printed());
    let records: Vec<_> = model::printed::records(raw.payload()).collect();
    assert_eq!(records.len(), 2);
    let mut text = Vec::new();
    for record in records.into_iter().flatten() {
        record.write(&mut text);
    }
    assert_eq!(text, b"hi\nhi\n");
    // Once.
    assert_eq!(raw.ask(&Request::Printed, &[]), nothing_printed());
    assert_eq!(raw.payload(), b"");
}

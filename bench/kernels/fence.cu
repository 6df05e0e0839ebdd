// Times the bench kernels as several modules hold them, in one process and in
// turn: as they are, and with each form of fences. Nothing is intercepted:
// modules are loaded by the driver, tables of partitions are written, and
// variables are placed, as a manager would do it.
//
//   fence PLAN [--kernel NAME] [--quick] [--repetitions N]
//
// A plan is text, a line each (numbers as C reads them):
//   partition BASE SIZE MARGIN HEADROOM  the addresses that are backed: the
//                                 partition, and the margins on both its sides
//   memory BYTES                  of the partition, backed by memory of its own,
//                                 from BASE on; buffers lie in it
//   sink BYTES shared|separate    chunks that back all other addresses: one for
//                                 all, or, where the device cannot map one at two
//                                 addresses, one each
//   stop ADDRESS BYTES            memory of its own beside all that, which is
//                                 cleared: there lie the words that end kernels
//   variant NAME FILE             a module, as PTX
//   table SYMBOL BYTES            of the variant before: the constant variable,
//                                 and what is written there, in hexadecimal digits
//   reserved OFFSET               at which offset of the table the bytes of shared
//                                 memory are that the system reserves in each
//                                 block, which the device is asked for
//   addresses BASE STOP           at which offsets of the table the addresses of
//                                 the partition and of the words are, which are
//                                 written anew if others have those of the plan
//   variable NAME ALIGNMENT       one that is placed in the partition
//
// Prints a JSON line for each kernel and variant:
//   {"kernel":"triad","size":67108864,"variant":"mask","registers":16,"local":0,
//    "digest":"...","times":[0.41,...]}
// Times are milliseconds, in the order in which they were measured.
#define BENCH_KERNELS_ONLY
#include "bench.cu"
#include "driver.h"
#include <fstream>
#include <sstream>

[[noreturn]] static void fail(const std::string &message) {
    std::fprintf(stderr, "fence: %s\n", message.c_str());
    std::exit(1);
}

struct Variable {
    std::string name;
    uint64_t alignment = 1;
};

struct Variant {
    std::string name, file;
    std::string symbol;  // of the table; empty if there is none
    std::vector<unsigned char> table;
    size_t reserved = 0;  // offset in the table; 0 if it holds the number already
    size_t base = 0, stop = 0;  // offsets in the table
    std::vector<Variable> variables;
    std::string text;
    CUmodule module = nullptr;
    CUfunction function = nullptr;  // of the kernel that is measured
};

struct Plan {
    uint64_t base = 0, size = 0, margin = 0, headroom = 0, memory = 0, sink = 0;
    uint64_t stop = 0, stop_bytes = 0;
    bool is_shared = false;
    std::vector<Variant> variants;
};

static uint64_t number(std::istringstream &words, const std::string &line) {
    std::string word;
    words >> word;
    char *end = nullptr;
    uint64_t value = std::strtoull(word.c_str(), &end, 0);
    if (word.empty() || *end) fail("no number in `" + line + "`");
    return value;
}

static std::vector<unsigned char> bytes_of(const std::string &digits) {
    std::vector<unsigned char> bytes;
    for (size_t i = 0; i + 1 < digits.size(); i += 2)
        bytes.push_back(static_cast<unsigned char>(std::stoi(digits.substr(i, 2), nullptr, 16)));
    return bytes;
}

static Plan read_plan(const char *path) {
    std::ifstream file(path);
    if (!file) fail(std::string("cannot read ") + path);
    Plan plan;
    std::string line;
    while (std::getline(file, line)) {
        std::istringstream words(line);
        std::string what, word;
        words >> what;
        if (what == "partition") {
            plan.base = number(words, line);
            plan.size = number(words, line);
            plan.margin = number(words, line);
            plan.headroom = number(words, line);
        } else if (what == "memory") {
            plan.memory = number(words, line);
        } else if (what == "sink") {
            plan.sink = number(words, line);
            words >> word;
            if (word != "shared" && word != "separate") fail("neither shared nor separate: " + line);
            plan.is_shared = word == "shared";
        } else if (what == "stop") {
            plan.stop = number(words, line);
            plan.stop_bytes = number(words, line);
        } else if (what == "variant") {
            Variant variant;
            words >> variant.name >> variant.file;
            plan.variants.push_back(variant);
        } else if (what == "table" && !plan.variants.empty()) {
            Variant &variant = plan.variants.back();
            words >> variant.symbol >> word;
            variant.table = bytes_of(word);
        } else if (what == "reserved" && !plan.variants.empty()) {
            plan.variants.back().reserved = number(words, line);
        } else if (what == "addresses" && !plan.variants.empty()) {
            plan.variants.back().base = number(words, line);
            plan.variants.back().stop = number(words, line);
        } else if (what == "variable" && !plan.variants.empty()) {
            Variable variable;
            words >> variable.name;
            variable.alignment = number(words, line);
            plan.variants.back().variables.push_back(variable);
        } else {
            fail("cannot read `" + line + "`");
        }
    }
    bool is_whole = plan.size && plan.memory && plan.sink && plan.stop_bytes && !plan.variants.empty();
    if (!is_whole) fail("the plan lacks a line");
    if (plan.memory > plan.size || (plan.size - plan.memory) % plan.sink || plan.margin % plan.sink)
        fail("the sink's chunks do not fit");
    return plan;
}

// ---- the partition ------------------------------------------------------------

struct Partition {
    uint64_t first = 0, next = 0, end = 0;  // where buffers lie

    // Moves the plan if others have its addresses.
    explicit Partition(Plan &plan) {
        CHECK(cudaFree(nullptr));
        reserve(plan);
        CUdeviceptr from = plan.base - plan.margin;
        uint64_t bytes = plan.size + 2 * plan.margin;
        back(plan.base, plan.memory, create(plan.memory));
        CUmemGenericAllocationHandle sink = create(plan.sink);
        bool is_first = true;
        auto fill = [&](uint64_t start, uint64_t stop) {
            for (uint64_t chunk = start; chunk < stop; chunk += plan.sink) {
                if (!plan.is_shared && !is_first) sink = create(plan.sink);
                is_first = false;
                back(chunk, plan.sink, sink);
            }
        };
        fill(from, plan.base);
        fill(plan.base + plan.memory, from + bytes);
        CUmemAccessDesc access = {};
        access.location = location();
        access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
        CHECK_DRIVER(DRIVER(cuMemSetAccess)(from, bytes, &access, 1));
        back(plan.stop, plan.stop_bytes, create(plan.stop_bytes));
        CHECK_DRIVER(DRIVER(cuMemSetAccess)(plan.stop, plan.stop_bytes, &access, 1));
        CHECK(cudaMemset(reinterpret_cast<void *>(plan.stop), 0, plan.stop_bytes));
        first = next = plan.base + plan.headroom;
        end = plan.base + plan.memory;
    }

    uint64_t take(uint64_t bytes, uint64_t alignment) {
        uint64_t at = (next + alignment - 1) / alignment * alignment;
        if (at + bytes > end) fail("the partition has too little memory");
        next = at + bytes;
        return at;
    }

private:
    // Reserves everything in one piece: drivers honour a wanted address for large
    // reservations only, and move one of 2 MiB, free or not (driver 580).
    static void reserve(Plan &plan) {
        uint64_t step = 1ull << 40;  // keeps every alignment
        CUdeviceptr from = std::min(plan.base - plan.margin, plan.stop);
        uint64_t until = std::max(plan.base + plan.size + plan.margin, plan.stop + plan.stop_bytes);
        uint64_t bytes = until - from;
        std::string answers;
        for (uint64_t moved = 0; moved < 16 * step; moved += step) {
            CUdeviceptr at = 0;
            CUresult result = DRIVER(cuMemAddressReserve)(&at, bytes, 0, from + moved, 0);
            if (result == CUDA_SUCCESS && at == from + moved) {
                plan.base += moved;
                plan.stop += moved;
                return;
            }
            if (result == CUDA_SUCCESS) CHECK_DRIVER(DRIVER(cuMemAddressFree)(at, bytes));
            char answer[96];
            std::snprintf(answer, sizeof answer, "\n  asked for %#llx, got %#llx (CUresult %d)",
                          static_cast<unsigned long long>(from + moved),
                          static_cast<unsigned long long>(at), static_cast<int>(result));
            answers += answer;
        }
        fail("cuMemAddressReserve gives no wanted address for " + std::to_string(bytes) +
             " bytes:" + answers);
    }

    static CUmemLocation location() {
        CUmemLocation here = {};
        here.type = CU_MEM_LOCATION_TYPE_DEVICE;
        return here;
    }

    static CUmemGenericAllocationHandle create(uint64_t bytes) {
        CUmemAllocationProp properties = {};
        properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
        properties.location = location();
        CUmemGenericAllocationHandle handle = 0;
        CHECK_DRIVER(DRIVER(cuMemCreate)(&handle, bytes, &properties, 0));
        return handle;
    }

    static void back(uint64_t at, uint64_t bytes, CUmemGenericAllocationHandle handle) {
        CHECK_DRIVER(DRIVER(cuMemMap)(at, bytes, 0, handle, 0));
    }
};

// ---- modules --------------------------------------------------------------------

static void write_address(Variant &variant, size_t offset, uint64_t address) {
    if (offset + sizeof address > variant.table.size()) fail("the table is too small");
    std::memcpy(&variant.table[offset], &address, sizeof address);
}

static void load(Variant &variant, const Plan &plan, Partition &partition) {
    std::ifstream file(variant.file);
    std::stringstream all;
    all << file.rdbuf();
    variant.text = all.str();
    if (variant.text.empty()) fail("cannot read " + variant.file);
    CHECK_DRIVER(DRIVER(cuModuleLoadData)(&variant.module, variant.text.c_str()));
    if (variant.symbol.empty()) return;
    if (variant.base == variant.stop) fail("the plan lacks the offsets of addresses");
    write_address(variant, variant.base, plan.base);
    write_address(variant, variant.stop, plan.stop);
    if (variant.reserved) {
        int reserved = 0;
        CHECK_DRIVER(DRIVER(cuDeviceGetAttribute)(
            &reserved, CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK, 0));
        if (variant.reserved + sizeof reserved > variant.table.size()) fail("the table is too small");
        std::memcpy(&variant.table[variant.reserved], &reserved, sizeof reserved);
    }
    for (const Variable &variable : variant.variables) {
        CUdeviceptr own = 0;
        size_t bytes = 0;
        CHECK_DRIVER(
            DRIVER(cuModuleGetGlobal)(&own, &bytes, variant.module, variable.name.c_str()));
        uint64_t at = partition.take(bytes, variable.alignment);
        CHECK_DRIVER(DRIVER(cuMemcpyDtoD)(at, own, bytes));
        const auto *word = reinterpret_cast<const unsigned char *>(&at);
        variant.table.insert(variant.table.end(), word, word + sizeof at);
    }
    // Variables stay where they are.
    partition.first = partition.next;
    CUdeviceptr table = 0;
    size_t bytes = 0;
    CHECK_DRIVER(DRIVER(cuModuleGetGlobal)(&table, &bytes, variant.module, variant.symbol.c_str()));
    if (bytes != variant.table.size()) fail("the table of " + variant.name + " has another size");
    CHECK_DRIVER(DRIVER(cuMemcpyHtoD)(table, variant.table.data(), bytes));
}

// The mangled name of a kernel: the one that begins with the length of its name.
static std::string mangled(const std::string &text, const std::string &kernel) {
    std::string begin = "_Z" + std::to_string(kernel.size()) + kernel;
    size_t at = text.find(".entry " + begin);
    if (at == std::string::npos) fail("no kernel " + kernel);
    at += std::strlen(".entry ");
    return text.substr(at, text.find_first_of("( \t\r\n", at) - at);
}

static int attribute(const Variant &variant, CUfunction_attribute which) {
    int value = 0;
    CHECK_DRIVER(DRIVER(cuFuncGetAttribute)(&value, which, variant.function));
    return value;
}

// ---- measurement ------------------------------------------------------------------

static void measure(const Entry &entry, const Options &options, Plan &plan, Partition &partition) {
    partition.next = partition.first;
    long long size = options.quick ? entry.small : entry.full;
    Variant *variant = nullptr;
    auto launch = DRIVER(cuLaunchKernel);
    replaced.launch = [&](const char *kernel, dim3 grid, dim3 block, void **arguments) {
        if (std::string(kernel) != entry.name) fail(std::string("another kernel: ") + kernel);
        CHECK_DRIVER(launch(variant->function, grid.x, grid.y, grid.z, block.x, block.y, block.z, 0,
                            nullptr, arguments, nullptr));
    };
    Bench bench;
    entry.prepare(bench, size);
    size_t count = plan.variants.size();
    std::vector<std::vector<float>> times(count);
    std::vector<uint64_t> digests(count);
    for (size_t i = 0; i < count; i++) {
        variant = &plan.variants[i];
        std::string name = mangled(variant->text, entry.name);
        CHECK_DRIVER(
            DRIVER(cuModuleGetFunction)(&variant->function, variant->module, name.c_str()));
        // A variant that writes nothing must not pass for one that is right.
        CHECK(cudaMemset(const_cast<void *>(bench.result), 0xa5, bench.result_bytes));
        if (bench.reset) bench.reset();
        bench.launch();
        CHECK(cudaDeviceSynchronize());
        digests[i] = digest(bench);
    }
    cudaEvent_t start, stop;
    CHECK(cudaEventCreate(&start));
    CHECK(cudaEventCreate(&stop));
    for (int round = -options.warmup; round < options.repetitions; round++) {
        for (size_t place = 0; place < count; place++) {
            size_t i = (place + round + options.warmup) % count;
            variant = &plan.variants[i];
            if (bench.reset) bench.reset();
            CHECK(cudaDeviceSynchronize());
            CHECK(cudaEventRecord(start));
            bench.launch();
            CHECK(cudaEventRecord(stop));
            CHECK(cudaEventSynchronize(stop));
            float ms = 0;
            CHECK(cudaEventElapsedTime(&ms, start, stop));
            if (round >= 0) times[i].push_back(ms);
        }
    }
    CHECK(cudaEventDestroy(start));
    CHECK(cudaEventDestroy(stop));
    for (size_t i = 0; i < count; i++) {
        const Variant &one = plan.variants[i];
        std::printf("{\"kernel\":\"%s\",\"size\":%lld,\"variant\":\"%s\",\"registers\":%d,\"local\":%d,"
                    "\"digest\":\"%016llx\",\"times\":[",
                    entry.name, size, one.name.c_str(),
                    attribute(one, CU_FUNC_ATTRIBUTE_NUM_REGS),
                    attribute(one, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES),
                    static_cast<unsigned long long>(digests[i]));
        for (size_t k = 0; k < times[i].size(); k++) std::printf("%s%.6f", k ? "," : "", times[i][k]);
        std::printf("]}\n");
    }
    std::fflush(stdout);
}

int main(int argc, char **argv) {
    Options options;
    options.repetitions = 31;
    const char *path = nullptr;
    for (int i = 1; i < argc; i++) {
        std::string argument = argv[i];
        if (argument == "--quick")
            options.quick = true;
        else if (argument == "--kernel" && i + 1 < argc)
            options.kernel = argv[++i];
        else if (argument == "--repetitions" && i + 1 < argc)
            options.repetitions = std::max(1, std::atoi(argv[++i]));
        else if (!path && argument[0] != '-')
            path = argv[i];
        else
            fail("unknown argument " + argument);
    }
    if (!path) fail("no plan");
    if (options.quick) options.repetitions = options.warmup = 1;
    Plan plan = read_plan(path);
    Partition partition(plan);
    replaced.allocate = [&](size_t bytes) {
        // As cudaMalloc aligns small and large buffers.
        uint64_t alignment = bytes < (1 << 20) ? 512 : 2 << 20;
        return reinterpret_cast<void *>(partition.take(bytes, alignment));
    };
    replaced.free = [](void *) {};
    for (Variant &variant : plan.variants) load(variant, plan, partition);
    bool any = false;
    for (const Entry &entry : entries) {
        if (!options.kernel.empty() && options.kernel != entry.name) continue;
        any = true;
        measure(entry, options, plan, partition);
    }
    if (!any) fail("no kernel is called " + options.kernel);
    return 0;
}

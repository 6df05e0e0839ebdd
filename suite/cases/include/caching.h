// A caching allocator in the manner of deep-learning frameworks: segments of
// 2 MiB from cudaMalloc, cut into blocks of multiples of 512 bytes, which go
// back to a list and are given out again.
#pragma once
#include "annotate.h"
#include <map>

class CachingAllocator {
  public:
    explicit CachingAllocator(bool annotated) : annotated_(annotated) {
        CHECK(cudaMalloc(&segment_, kSegment));
        CHECK(cudaMemset(segment_, 0, kSegment));
        if (annotated_) ringfence_pool_create(segment_, kSegment);
    }
    ~CachingAllocator() {
        if (annotated_) ringfence_pool_destroy(segment_);
        CHECK(cudaFree(segment_));
    }
    CachingAllocator(const CachingAllocator &) = delete;
    CachingAllocator &operator=(const CachingAllocator &) = delete;

    void *take(size_t bytes) {
        const size_t rounded = (bytes + 511) / 512 * 512;
        char *block;
        auto cached = free_.find(rounded);
        if (cached != free_.end()) {
            block = cached->second;
            free_.erase(cached);
        } else {
            if (used_ + rounded > kSegment) std::exit(1);
            block = segment_ + used_;
            used_ += rounded;
        }
        size_[block] = rounded;
        if (annotated_) ringfence_pool_alloc(segment_, block, bytes);
        return block;
    }

    void give(void *block) {
        if (annotated_) ringfence_pool_free(block);
        char *start = static_cast<char *>(block);
        free_.emplace(size_[start], start);
        size_.erase(start);
    }

  private:
    static constexpr size_t kSegment = 2 << 20;
    bool annotated_;
    char *segment_ = nullptr;
    size_t used_ = 0;
    std::multimap<size_t, char *> free_;
    std::map<char *, size_t> size_;
};

// The word that fills what nobody but the neighbour may read.
#pragma once
#include <cstdint>

constexpr uint32_t SECRET = 0x5ec2e7a5;

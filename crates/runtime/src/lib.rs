//! What Ringfence does at load, allocate, copy, launch, synchronize and exit.

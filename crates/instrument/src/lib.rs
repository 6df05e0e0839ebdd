//! Passes from PTX to PTX that add memory-safety checks, and the verifier of their output.

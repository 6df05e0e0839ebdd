//! Operands.

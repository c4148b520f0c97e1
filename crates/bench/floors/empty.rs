//! Floor: the least a Rust program can cost.

fn main() {}

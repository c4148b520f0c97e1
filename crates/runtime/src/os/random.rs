//! Randomness from the kernel.

/// Bytes that nobody can guess.
#[expect(clippy::disallowed_methods, reason = "this is the door")]
pub fn bytes<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).expect("the kernel has randomness once it has booted");
    bytes
}

/// A number that nobody can guess, and that two calls do not share.
pub fn number() -> u64 {
    u64::from_le_bytes(bytes())
}

/// A number from 0 to 1.
pub fn fraction() -> f64 {
    f64::from(u32::from_le_bytes(bytes())) / f64::from(u32::MAX)
}

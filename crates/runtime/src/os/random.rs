//! Randomness from the kernel.

/// Bytes that nobody can guess.
#[expect(clippy::disallowed_methods, reason = "this is the door")]
pub fn bytes<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).expect("the kernel has randomness once it has booted");
    bytes
}

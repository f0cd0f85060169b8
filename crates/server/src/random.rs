//! Random numbers from the operating system.

/// 64 random bits.
///
/// # Panics
/// When the operating system has no randomness, without which no id is safe.
pub(crate) fn number() -> u64 {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes).expect("the operating system gives random bytes");
    u64::from_le_bytes(bytes)
}

/// 128 random bits.
pub(crate) fn id() -> u128 {
    u128::from(number()) << 64 | u128::from(number())
}

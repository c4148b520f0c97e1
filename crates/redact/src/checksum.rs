//! The checksum at the end of GitHub's tokens.

/// Whether the last six characters are the CRC-32 of the others in base 62, as GitHub makes
/// them. Tells a real token from a made-up one; a wrong sum does not make it harmless.
pub(super) fn has_github_checksum(body: &[u8]) -> bool {
    const DIGITS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    if body.len() != 36 {
        return false;
    }
    let (random, sum) = body.split_at(30);
    let mut rest = crc32(random) as usize;
    sum.iter().rev().all(|digit| {
        let expected = DIGITS[rest % 62];
        rest /= 62;
        *digit == expected
    })
}

pub(super) fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |crc: u32, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
            (crc >> 1) ^ (0xEDB8_8320 & (crc & 1).wrapping_neg())
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_check_value_of_crc32_comes_out() {
        assert_eq!(crc32(b"123456789"), 0xCBF4_3926);
    }
}

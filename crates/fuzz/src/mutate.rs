//! Makes inputs from inputs: the same ones for the same seed.

/// Longer inputs show nothing that shorter ones do not.
const BYTES_MAX: usize = 8 << 10;

/// What parsers stumble over.
const WORDS: &[&[u8]] = &[
    b"",
    b"\0",
    b"\n",
    b"\r\n",
    b"\r\n\r\n",
    b"\"",
    b"\\",
    b"\\u0000",
    b"\\ud800",
    b"{",
    b"}",
    b"[",
    b"]",
    b":",
    b",",
    b"=",
    b"..",
    b"/",
    b"%2F",
    b"%00",
    b"-",
    b"--",
    b"'",
    b";",
    b"$(id)",
    b"null",
    b"true",
    b"-1",
    b"0",
    b"1e400",
    b"4294967296",
    b"9223372036854775807",
    b"18446744073709551615",
    b"18446744073709551616",
    b"0.0000001",
    b"\xff",
    b"\xc3",
    b"\xe2\x80\xae",
    b"\xef\xbb\xbf",
    b"\x1b[31m",
    b"\x1b]0;",
    b"\x07",
    b"9999-12-31T23:59:59Z",
    b"-9999-01-01T00:00:00Z",
    b"999999999d",
    b"rlt_fuzz",
    b"Bearer ",
    b"password=",
    b"sk-",
    b"[redacted:env:0123abcd]",
    b"kn0wn-value-one",
    b"127.0.0.1:7717",
    b"evil.example",
];

/// Makes inputs from inputs.
#[derive(Debug, Clone)]
pub struct Mutator(u64);

impl Mutator {
    /// The same inputs for the same seed.
    pub fn new(seed: u64) -> Self {
        // Zero would stay zero.
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// One of the inputs, changed in a few places.
    pub fn next(&mut self, corpus: &[Vec<u8>]) -> Vec<u8> {
        let mut bytes = self.one_of(corpus).cloned().unwrap_or_default();
        for _ in 0..=self.below(4) {
            self.change(&mut bytes, corpus);
        }
        bytes.truncate(BYTES_MAX);
        bytes
    }

    fn change(&mut self, bytes: &mut Vec<u8>, corpus: &[Vec<u8>]) {
        let at = self.below(bytes.len() + 1);
        let end = at + self.below((bytes.len() - at).min(16) + 1);
        match self.below(8) {
            0 => drop(bytes.drain(at..end)),
            1 => bytes.truncate(at),
            2 => {
                let word = self.one_of(WORDS).copied().unwrap_or_default();
                bytes.splice(at..at, word.iter().copied());
            }
            3 => {
                let word = self.one_of(WORDS).copied().unwrap_or_default();
                bytes.splice(at..end, word.iter().copied());
            }
            4 => {
                let part = bytes[at..end].repeat(1 + self.below(64));
                bytes.splice(at..at, part);
            }
            5 => {
                // The rest of another input.
                let other = self.one_of(corpus).cloned().unwrap_or_default();
                let from = self.below(other.len() + 1);
                bytes.truncate(at);
                bytes.extend_from_slice(&other[from..]);
            }
            6 => {
                let bit = 1 << self.below(8);
                if let Some(byte) = bytes.get_mut(at) {
                    *byte ^= bit;
                }
            }
            _ => {
                let byte = self.number() as u8;
                bytes.insert(at, byte);
            }
        }
    }

    fn one_of<'a, T>(&mut self, all: &'a [T]) -> Option<&'a T> {
        all.get(self.below(all.len().max(1)))
    }

    fn below(&mut self, end: usize) -> usize {
        (self.number() % end as u64) as usize
    }

    /// Xorshift: quick, and the same everywhere.
    fn number(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

//! Mutations from a seed: the same for the same seed, and no match for a fuzzer that sees what its
//! inputs reach.

/// Makes inputs out of inputs.
#[derive(Debug)]
pub struct Mutator(u64);

/// Bytes that often mean something.
const TELLING: [u8; 12] = [0, 1, 0x7f, 0x80, 0xff, b'"', b'\r', b'\n', b' ', b'%', b',', b'-'];

/// The longest piece that is copied or cut out.
const PIECE_BYTES_MAX: usize = 64;

impl Mutator {
    /// A source of mutations.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A mutation of `input`, with pieces of `other`.
    pub fn mutate(&mut self, input: &[u8], other: &[u8]) -> Vec<u8> {
        let mut bytes = input.to_vec();
        for _ in 0..=self.below(4) {
            self.change(&mut bytes, other);
        }
        bytes
    }

    fn change(&mut self, bytes: &mut Vec<u8>, other: &[u8]) {
        let at = self.below(bytes.len() + 1);
        let len = self.below(PIECE_BYTES_MAX);
        let end = bytes.len().min(at + len);
        match self.below(8) {
            0 if at < bytes.len() => bytes[at] ^= 1 << self.below(8),
            1 if at < bytes.len() => bytes[at] = TELLING[self.below(TELLING.len())],
            2 if at < bytes.len() => {
                let step = u8::try_from(self.below(8)).expect("less than 8");
                bytes[at] = bytes[at].wrapping_add(step).wrapping_sub(4);
            }
            3 => bytes.truncate(at),
            4 => drop(bytes.drain(at..end)),
            5 => {
                let piece = bytes[at..end].to_vec();
                let to = self.below(bytes.len() + 1);
                bytes.splice(to..to, piece);
            }
            6 => {
                let from = self.below(other.len() + 1);
                let piece = other[from..other.len().min(from + len)].to_vec();
                let end = if self.below(2) == 0 { at } else { bytes.len().min(at + piece.len()) };
                bytes.splice(at..end, piece);
            }
            _ => bytes.insert(at, TELLING[self.below(TELLING.len())]),
        }
    }

    /// A number below `end`, which is not 0 (splitmix64).
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let x = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        usize::try_from((x ^ (x >> 31)) % end as u64).expect("below a usize")
    }
}

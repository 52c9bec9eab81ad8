//! Deterministic mutations: the same inputs on every machine, so that a failure is repeatable.

/// xorshift64*.
pub struct Generator(u64);

impl Generator {
    /// A generator with this seed, which may be 0.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(seed ^ 0x9e37_79b9_7f4a_7c15)
    }

    /// The next number.
    pub fn draw(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// A number below `bound`, 0 for a bound of 0.
    ///
    /// # Panics
    /// Never on 64-bit machines.
    pub fn below(&mut self, bound: usize) -> usize {
        let bound = u64::try_from(bound.max(1)).expect("64 bits");
        usize::try_from(self.draw() % bound).expect("64 bits")
    }

    fn byte(&mut self) -> u8 {
        self.draw().to_le_bytes()[3]
    }
}

/// Boundary values of lengths and counts.
const EDGES: [u32; 10] = [
    0,
    1,
    0x7f,
    0xff,
    0xffff,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_fffe,
    u32::MAX,
    256 * 1024,
];

/// Pieces with a meaning in one of the formats.
const PIECES: [&[u8]; 24] = [
    b"\"",
    b"'",
    b"\\",
    b"#",
    b"=",
    b"*",
    b"?",
    b"!",
    b",",
    b"[",
    b"]",
    b"%h",
    b"${X}",
    b"\0",
    b"\n",
    b"\r",
    b"\x1b",
    b"@revoked ",
    b"cert-authority",
    b"restrict,",
    b"ssh-ed25519",
    b"Match ",
    b"99999999999999999999",
    b"\xff",
];

/// A changed copy of one of `corpus`.
pub fn mutated(generator: &mut Generator, corpus: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = match corpus.get(generator.below(corpus.len())) {
        Some(seed) => seed.clone(),
        None => Vec::new(),
    };
    for _ in 0..=generator.below(5) {
        let at = generator.below(bytes.len());
        match generator.below(9) {
            0 => {
                if let Some(byte) = bytes.get_mut(at) {
                    *byte = generator.byte();
                }
            }
            1 => {
                if let Some(byte) = bytes.get_mut(at) {
                    *byte ^= 1 << generator.below(8);
                }
            }
            2 => bytes.truncate(at),
            3 => {
                let end = (at + generator.below(32)).min(bytes.len());
                bytes.drain(at..end);
            }
            4 => {
                let edge = EDGES[generator.below(EDGES.len())].to_be_bytes();
                for (index, byte) in edge.into_iter().enumerate() {
                    if let Some(place) = bytes.get_mut(at + index) {
                        *place = byte;
                    }
                }
            }
            5 => {
                let piece = PIECES[generator.below(PIECES.len())];
                bytes.splice(at..at, piece.iter().copied());
            }
            6 => {
                let end = (at + generator.below(64)).min(bytes.len());
                let copy = bytes[at..end].to_vec();
                let to = generator.below(bytes.len());
                bytes.splice(to..to, copy);
            }
            7 => {
                if let Some(other) = corpus.get(generator.below(corpus.len())) {
                    bytes.truncate(at);
                    bytes.extend_from_slice(&other[generator.below(other.len())..]);
                }
            }
            _ => {
                let more = generator.below(48);
                bytes.extend((0..more).map(|_| generator.byte()));
            }
        }
    }
    bytes
}

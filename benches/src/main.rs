//! The program that `cargo xtask bench` runs under callgrind: the work of the protocol, one piece
//! after another, each inside [`count_instructions`] and nothing else.
//!
//! Callgrind collects only inside that function and writes its counts at each return; this program
//! prints the names of the pieces in the same order. The first line names the instruction sets.
//! Some work depends on random bytes; it varies far less than the tolerance.
#![forbid(unsafe_code)]

mod connections;
mod packets;

/// The function that callgrind watches, by its name; it must not be inlined.
#[inline(never)]
fn count_instructions(work: &mut dyn FnMut()) {
    work();
}

/// Prepared work, by name.
struct Piece {
    name: String,
    work: Box<dyn FnMut()>,
}

impl Piece {
    fn new(name: impl Into<String>, work: impl FnMut() + 'static) -> Self {
        Self {
            name: name.into(),
            work: Box::new(work),
        }
    }
}

fn main() {
    println!("# features: {}", features());
    let mut pieces = packets::pieces();
    pieces.extend(connections::pieces());
    for mut piece in pieces {
        count_instructions(&mut piece.work);
        println!("{}", piece.name);
    }
}

/// The instruction sets by which kernels are chosen. Under callgrind AVX2 is the highest.
fn features() -> String {
    #[cfg(target_arch = "x86_64")]
    {
        let found = [
            ("aes", std::arch::is_x86_feature_detected!("aes")),
            ("sha", std::arch::is_x86_feature_detected!("sha")),
            ("avx2", std::arch::is_x86_feature_detected!("avx2")),
            ("bmi2", std::arch::is_x86_feature_detected!("bmi2")),
            ("adx", std::arch::is_x86_feature_detected!("adx")),
            ("vaes", std::arch::is_x86_feature_detected!("vaes")),
            ("avx512", std::arch::is_x86_feature_detected!("avx512f")),
        ];
        let names: Vec<&str> = found
            .into_iter()
            .filter(|(_, has)| *has)
            .map(|(name, _)| name)
            .collect();
        format!("x86_64 {}", names.join(" "))
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        std::env::consts::ARCH.to_string()
    }
}

//! The order of functions, and the patterns by which the linker finds them in later builds.

/// The processes of a login, by the subcommand that starts them. The listener is not among them,
/// because it starts once.
pub const ROLES: [&str; 4] = ["ssh", "sshd-monitor", "sshd-auth", "sshd-session"];

/// Bytes that the kernel maps at a page fault.
const WINDOW: u64 = 65536;

/// A function that a login runs.
pub struct Function {
    /// Mangled symbols; several if the linker merged functions of equal content.
    pub names: Vec<String>,
    /// Bytes.
    pub size: u64,
    /// One bit for each of [`ROLES`] that runs it.
    pub roles: u8,
    /// True if most of the code that its pattern matches does not run.
    pub crowded: bool,
}

/// Places functions of the same roles together, and groups with common roles beside each other:
/// along a Gray code of the roles, with the numbering for which the roles reach the fewest windows.
/// Functions larger than a window, of which only parts run, come last, and so do functions whose
/// patterns match many others.
pub fn order(functions: Vec<Function>) -> Vec<Function> {
    let mut best: Option<(u64, Vec<usize>)> = None;
    for numbers in permutations() {
        let mut places: Vec<usize> = (0..functions.len()).collect();
        places.sort_by_key(|place| {
            functions.get(*place).map(|function| {
                let last = function.crowded || function.size > WINDOW;
                (last, rank(function.roles, numbers), *place)
            })
        });
        let reached: u64 = windows_of(places.iter().filter_map(|place| functions.get(*place)))
            .iter()
            .sum();
        if best.as_ref().is_none_or(|(least, _)| reached < *least) {
            best = Some((reached, places));
        }
    }
    let places = best.map_or_else(Vec::new, |(_, places)| places);
    let mut functions: Vec<Option<Function>> = functions.into_iter().map(Some).collect();
    places
        .into_iter()
        .filter_map(|place| functions.get_mut(place).and_then(Option::take))
        .collect()
}

/// Number of windows that each role reaches with this order of functions.
pub fn windows(functions: &[Function]) -> [u64; ROLES.len()] {
    windows_of(functions.iter())
}

fn windows_of<'f>(functions: impl Iterator<Item = &'f Function>) -> [u64; ROLES.len()] {
    let mut reached = [0; ROLES.len()];
    let mut next = [0; ROLES.len()];
    let mut position = 0;
    for function in functions {
        // Only a part of a large function runs.
        let run = if function.size > WINDOW {
            8192
        } else {
            function.size
        };
        let last = (position + run - 1) / WINDOW;
        for (role, (reached, next)) in reached.iter_mut().zip(&mut next).enumerate() {
            if function.roles >> role & 1 == 1 {
                let first = (position / WINDOW).max(*next);
                *reached += (last + 1).saturating_sub(first);
                *next = last + 1;
            }
        }
        position += function.size.next_multiple_of(16);
    }
    reached
}

/// Position of a set of roles in the Gray code in which role `i` is bit `numbers[i]`.
fn rank(roles: u8, numbers: [usize; ROLES.len()]) -> u8 {
    let code = numbers.iter().enumerate().fold(0, |code, (role, number)| {
        code | (roles >> role & 1) << number
    });
    code ^ code >> 1 ^ code >> 2 ^ code >> 3
}

fn permutations() -> impl Iterator<Item = [usize; ROLES.len()]> {
    (0..256_usize)
        .map(|all| [all & 3, all >> 2 & 3, all >> 4 & 3, all >> 6])
        .filter(|numbers| numbers.iter().fold(0, |seen, n| seen | 1 << n) == 15)
}

/// The symbol with `*` for the parts that differ between builds: the hash after a Rust name, that
/// of a crate, the version in the names of aws-lc, and suffixes of the linker's optimisation.
pub fn pattern(name: &str) -> String {
    if let Some(rest) = name.strip_prefix("aws_lc_") {
        let bare = rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == '_');
        return format!("aws_lc_*_{bare}");
    }
    if let Some(hash) = name.rfind("17h").filter(|_| name.starts_with("_ZN")) {
        return format!("{}*", name.get(..hash + 3).unwrap_or(name));
    }
    let name = match name.split_once('.') {
        Some((bare, _)) => format!("{bare}*"),
        None => name.to_owned(),
    };
    if !name.starts_with("_R") {
        return name;
    }
    without_crates(&name)
}

/// A `_R` name with `*` in place of each crate's number: `Cs`, letters and digits, `_`.
fn without_crates(name: &str) -> String {
    let mut text = String::new();
    let mut rest = name;
    while let Some(at) = rest.find("Cs") {
        let (before, from) = rest.split_at(at + 2);
        text.push_str(before);
        let number = from.find(|c: char| !c.is_ascii_alphanumeric());
        rest = match number {
            Some(end) if end > 8 && from.get(end..).is_some_and(|tail| tail.starts_with('_')) => {
                text.push('*');
                from.get(end..).unwrap_or_default()
            }
            _ => from,
        };
    }
    text + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_hold_for_other_builds() {
        for (name, expected) in [
            (
                "_ZN5proto9transport9Transport3new17h6b2668628fc1c786E",
                "_ZN5proto9transport9Transport3new17h*",
            ),
            (
                "aws_lc_0_47_0_curve25519_x25519_byte",
                "aws_lc_*_curve25519_x25519_byte",
            ),
            (
                "_RNvXsZ_NtCslNYArtu3iFV_5alloc6stringE5write.6063",
                "_RNvXsZ_NtCs*_5alloc6stringE5write*",
            ),
            ("Ledwards25519_epadd", "Ledwards25519_epadd"),
        ] {
            assert_eq!(pattern(name), expected);
        }
    }

    #[test]
    fn functions_of_one_role_come_together() {
        let function = |roles| Function {
            names: vec![],
            size: 20_000,
            roles,
            crowded: false,
        };
        // Each role alone, in turn, and all of them.
        let mixed: Vec<Function> = (0..40).map(|n| function([1, 2, 4, 8, 15][n % 5])).collect();
        let before: u64 = windows(&mixed).iter().sum();
        let behind: u64 = windows(&order(mixed)).iter().sum();
        assert_eq!(before, 4 * 13);
        // 160,000 bytes each alone, and the same for all: at best six windows.
        assert!(behind <= 4 * 7, "{behind}");
    }

    #[test]
    fn the_kernel_maps_whole_windows() {
        let function = |size, roles| Function {
            names: vec![],
            size,
            roles,
            crowded: false,
        };
        let two = [function(60_000, 1), function(10_000, 2)];
        assert_eq!(windows(&two), [1, 2, 0, 0]);
        let large = [function(340_000, 1), function(16, 1)];
        assert_eq!(windows(&large), [2, 0, 0, 0]);
    }
}

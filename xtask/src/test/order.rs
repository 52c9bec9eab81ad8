//! Which test programs run first, and which run alone at the end.

use super::documentation;
use super::record::Program;

/// The longest, the longest first: one that begins last would run alone for most of its time.
pub(super) const FIRST: &[&str] = &[
    "restrictions::table",
    "interop::rekey",
    documentation::NAME,
    "interop::logs",
    "interop::bench",
    "interop::algorithms",
    "interop::passwords",
    "interop::writers",
    "interop::load",
    "interop::limits",
    "interop::hostbased",
    "interop::sharing",
    "pipeline::model",
    "interop::cuts",
    "interop::sftp",
    "interop::stale_ports",
    "interop::progress",
    "hostile::sshd_login",
    "interop::forwarding_ends",
];

/// Programs that need the machine for themselves, each with the reason.
pub(super) const ALONE: &[(&str, &str)] = &[(
    "crypto::first_use",
    "counts the CPU time of a key, which a busy neighbour on the same core makes longer",
)];

/// The programs that run beside others, in the order in which they begin, and those that run alone.
pub(super) fn sorted(programs: Vec<Program>) -> (Vec<Program>, Vec<Program>) {
    let is_alone = |program: &Program| ALONE.iter().any(|(name, _)| program.name == *name);
    let (alone, mut beside): (Vec<_>, Vec<_>) = programs.into_iter().partition(is_alone);
    let place = |program: &Program| FIRST.iter().position(|name| program.name == *name);
    // Stable: the others keep cargo's order.
    beside.sort_by_key(|program| place(program).unwrap_or(FIRST.len()));
    (beside, alone)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_come_first_and_those_that_run_alone_apart() {
        let program = |name: &str| Program {
            name: name.into(),
            directory: "/".into(),
            command: Vec::new(),
            environment: Vec::new(),
        };
        let (first, second, last) = (FIRST[0], FIRST[1], ALONE[0].0);
        let names = ["a::a", last, second, "a::b", first];
        let (beside, alone) = sorted(names.map(program).into_iter().collect());
        let names = |programs: &[Program]| {
            let names = programs.iter().map(|program| program.name.clone());
            names.collect::<Vec<_>>()
        };
        assert_eq!(names(&beside), [first, second, "a::a", "a::b"]);
        assert_eq!(names(&alone), [last]);
    }
}

//! What each kind of package needs beside Cargo, looked for before anything is built.

use std::io::{Error, Result};
use std::path::Path;
use std::process::Command;

use super::text_of;

/// The kinds, with their programs and where those come from (Debian's packages).
const NEEDED: [(&str, &[(&str, &str)]); 3] = [
    (
        "deb",
        &[
            ("dpkg-deb", "dpkg"),
            ("dpkg-shlibdeps", "dpkg-dev"),
            ("strip", "binutils"),
        ],
    ),
    ("rpm", &[("rpmbuild", "rpm"), ("strip", "binutils")]),
    (
        "tarball",
        &[
            (MUSL_GCC, "musl-tools"),
            (MUSL_TARGET, "rustup target add"),
            ("readelf", "binutils"),
            ("strip", "binutils"),
        ],
    ),
];

/// The kinds that are made if none is named.
const DEFAULT_KINDS: [&str; 2] = ["deb", "rpm"];

/// The linker of static programs.
const MUSL_GCC: &str = "musl-gcc";
/// The compiler's libraries for static programs.
const MUSL_TARGET: &str = "the compiler's target for musl";

/// The kinds to make: those that are asked for or, if none is, those of the default whose programs are there. Prints the kinds
/// left out, and why.
///
/// # Errors
/// The lacking tools, if a kind is asked for, or if no kind can be made.
pub(super) fn choose(asked: &[&str], is_there: impl Fn(&str) -> bool) -> Result<Vec<&'static str>> {
    let wanted = match asked {
        [] => &DEFAULT_KINDS[..],
        asked => asked,
    };
    let mut chosen = Vec::new();
    let mut problems = Vec::new();
    for (kind, programs) in NEEDED.iter().filter(|(kind, _)| wanted.contains(kind)) {
        let lacking = programs.iter().filter(|(program, _)| !is_there(program));
        let lacking: Vec<String> = lacking
            .map(|(program, from)| format!("{program} ({from})"))
            .collect();
        match lacking.as_slice() {
            [] => chosen.push(*kind),
            lacking => problems.push(format!("{kind} needs {}", lacking.join(", "))),
        }
    }
    if !problems.is_empty() && (!asked.is_empty() || chosen.is_empty()) {
        return Err(Error::other(problems.join("; ")));
    }
    for problem in problems {
        println!("skipped: {problem}");
    }
    Ok(chosen)
}

/// True if this machine has what [`NEEDED`] names, or does not need it because a static binary is built already.
pub(super) fn is_there(program: &str) -> bool {
    let for_static = [MUSL_GCC, MUSL_TARGET].contains(&program);
    if for_static && std::env::var_os("FULMAR_STATIC_BIN").is_some() {
        return true;
    }
    if program == MUSL_TARGET {
        let target = format!("{}-unknown-linux-musl", std::env::consts::ARCH);
        let mut rustc = Command::new("rustc");
        rustc.args(["--print", "target-libdir", "--target", &target]);
        return text_of(&mut rustc).is_ok_and(|folder| Path::new(&folder).is_dir());
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_asked_for_is_skipped_and_what_is_asked_for_is_refused_without_its_programs() {
        let all = |_: &str| true;
        assert_eq!(choose(&[], all).unwrap(), ["deb", "rpm"]);
        assert_eq!(
            choose(&["tarball", "deb"], all).unwrap(),
            ["deb", "tarball"]
        );
        let no_rpm = |program: &str| program != "rpmbuild";
        assert_eq!(choose(&[], no_rpm).unwrap(), ["deb"]);
        let error = choose(&["deb", "rpm"], no_rpm).unwrap_err().to_string();
        assert_eq!(error, "rpm needs rpmbuild (rpm)");
        let error = choose(&[], |_| false).unwrap_err().to_string();
        assert!(error.contains("dpkg-shlibdeps (dpkg-dev)") && error.contains("; rpm needs"));
    }

    #[test]
    fn programs_of_the_path_are_found() {
        assert!(is_there("sh"));
        assert!(!is_there("none-by-this-name"));
    }
}

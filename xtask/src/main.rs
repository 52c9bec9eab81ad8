//! Tasks of the project: `cargo xtask check|test|bench|interop|regress|differ|endurance|man|surface|order|package|semver`.

mod bench;
mod check;
mod order;
mod package;
mod programs;
mod regress;
mod test;

const USAGE: &str = "\
usage: cargo xtask check | test [...] | bench [--bless] | interop [--all] | regress [...] |
       differ KIND | endurance | man | surface [FOLDER] | order [--check] [PROGRAM] | package [...] |
       semver [REVISION]
  check    rules that no compiler knows: arrows between rooms, unused dependencies,
           places of unsafe, sizes
  test     all tests, several test programs at once: [--jobs N] [NAME...]; NAME is the beginning
           of PACKAGE::TARGET; the output of each is in target/tests
  bench    instructions of the protocol's work against the baseline; --bless: a new one
  interop  our programs against the peers of this machine; --all: the full product, long tests and all tools
  regress  OpenSSH's own regression suite with our programs under their names (root):
           [--suite bookworm|unstable] [--list] [--openssh] [--workers N] [--mirror URL]
           [TEST... | --in COMMAND...]
           --list: tests, and why those fail that do; --openssh: with OpenSSH's own programs;
           --in: a command there in place of tests;
           --mirror: where Debian's packages come from, if not from where apt has them
  differ   cases made from a seed, given to OpenSSH and to ours, and what differs; KIND is
           config, copies or restrictions; --seed N, --rounds N, --case N, --chroot FOLDER
  endurance  a server, an agent and a master work for hours at a tenth of their load, and may not grow:
           [--minutes N] [--mark N] [--seed N]; FULMAR_BIN: another program than a release build
  man      write the generated parts of man/ and completion/
  surface  how far the keywords of OpenSSH's manual pages are supported;
           [FOLDER] with ssh_config.5 and sshd_config.5, /usr/share/man/man5 by default
  order    watch logins by a release build, or PROGRAM, and write which functions stand
           next to each other in the next one; --check: fail where that list is stale
  package  packages of the release build without benchmarks, in target/package:
           [deb] [rpm] [tarball] [all] [--out FOLDER] [--sign KEY] [--maintainer NAME]
           [--profile NAME]; without a kind deb and rpm;
           FULMAR_BIN, for the tarball FULMAR_STATIC_BIN: a binary that is already built
  semver   compares the public interface of the library with the last tag, or REVISION (cargo-semver-checks)
";

use std::process::ExitCode;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.first().map(String::as_str) {
        Some("check") => exit(check::run()),
        Some("test") => exit(test::run(args.get(1..).unwrap_or_default())),
        Some("record") => exit(test::record(args.get(1..).unwrap_or_default())),
        Some("bench") => exit(bench::run(args.get(1..).unwrap_or_default())),
        Some("interop") => programs::interop(args.get(1..).unwrap_or_default()),
        Some("regress") => exit(regress::run(args.get(1..).unwrap_or_default())),
        Some("differ") => programs::differ(args.get(1..).unwrap_or_default()),
        Some("endurance") => programs::endurance(args.get(1..).unwrap_or_default()),
        Some("man") => programs::man(),
        Some("surface") => programs::surface(args.get(1..).unwrap_or_default()),
        Some("semver") => programs::semver(args.get(1..).unwrap_or_default()),
        Some("package") => exit(package::run(args.get(1..).unwrap_or_default())),
        Some("order") => exit(order::run(args.get(1..).unwrap_or_default())),
        _ => {
            eprint!("{USAGE}");
            exit(2)
        }
    }
}

fn exit(status: i32) -> ExitCode {
    ExitCode::from(u8::try_from(status).unwrap_or(1))
}

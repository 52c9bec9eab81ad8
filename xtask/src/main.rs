//! Tasks of the project: `cargo xtask check|bench|interop|man`.

mod bench;
mod check;
mod interop;
mod man;

const USAGE: &str = "usage: cargo xtask check | bench [--bless] | interop [--all] | man\n\
     check    rules that no compiler knows: arrows between rooms, places of unsafe, sizes\n\
     bench    instructions of the protocol's work against the baseline; --bless: a new one\n\
     interop  our programs against the peers of this machine; --all: the full product\n\
     man      write the generated parts of man/\n";

use std::process::ExitCode;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.first().map(String::as_str) {
        Some("check") => exit(check::run()),
        Some("bench") => exit(bench::run(args.get(1..).unwrap_or_default())),
        Some("interop") => interop::run(args.get(1..).unwrap_or_default()),
        Some("man") => exit(man::run()),
        _ => {
            eprint!("{USAGE}");
            exit(2)
        }
    }
}

fn exit(status: i32) -> ExitCode {
    ExitCode::from(u8::try_from(status).unwrap_or(1))
}

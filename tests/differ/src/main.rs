//! Generates cases from a seed, runs them with OpenSSH and with Fulmar, and compares the results.
//!
//! [`config`] generates configuration files, [`copies`] copies by scp and sftp, and
//! [`restrictions`] restricted keys and what their holder can still do. The seed and the number of
//! a case are sufficient to generate it again. A case that differs is made smaller, looked up in a
//! list ([`list`]) of intended differences with reasons, and reported ([`run`]).
#![forbid(unsafe_code)]

mod config;
mod copies;
mod list;
mod peers;
mod restrictions;
mod run;

use std::process::ExitCode;

use run::Run;

const USAGE: &str = "\
usage: cargo xtask differ config|copies|restrictions [--seed N] [--rounds N] [--case N] [--chroot FOLDER]
  config        ssh -G, sshd -T and ssh-keygen -F/-l with files by their grammar
  copies        trees that scp, scp -O and sftp copy, with servers of both
  restrictions  options of keys, certificates and sshd_config, and what is still possible
  --seed N      what all cases follow from (1)
  --rounds N    how many cases (2000)
  --case N      this case alone, with everything that was said
  --chroot FOLDER  a system with a newer OpenSSH, as root (or DIFFER_CHROOT in the environment)
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some((suite, run)) = parse(&arguments) else {
        eprint!("{USAGE}");
        return ExitCode::from(2);
    };
    if let Some(Err(why)) = run.chroot.as_deref().map(peers::enter) {
        eprintln!("differ: {why}");
        return ExitCode::FAILURE;
    }
    let unlisted = match suite.as_str() {
        "config" => run::run::<config::Configuration>(&run),
        "copies" => {
            if let Err(why) = copies::give_up_rights() {
                eprintln!("differ: {why}");
                return ExitCode::FAILURE;
            }
            run::run::<copies::Copies>(&run)
        }
        "restrictions" => run::run::<restrictions::Restrictions>(&run),
        _ => {
            eprint!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match unlisted {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}

fn parse(arguments: &[String]) -> Option<(String, Run)> {
    let (suite, flags) = arguments.split_first()?;
    let mut run = Run {
        seed: 1,
        rounds: 2000,
        case: None,
        chroot: std::env::var_os("DIFFER_CHROOT").map(Into::into),
    };
    for pair in flags.chunks(2) {
        let [flag, value] = pair else { return None };
        match flag.as_str() {
            "--seed" => run.seed = value.parse().ok()?,
            "--rounds" => run.rounds = value.parse().ok()?,
            "--case" => run.case = Some(value.parse().ok()?),
            "--chroot" => run.chroot = Some(value.into()),
            _ => return None,
        }
    }
    Some((suite.clone(), run))
}

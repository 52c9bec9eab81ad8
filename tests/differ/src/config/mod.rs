//! Configuration: `ssh -G`, `sshd -T` and `ssh-keygen -F`/`-l` of ours and of every peer, with files
//! by the grammar of each.
//!
//! A difference counts if ours differs from every available peer: versions of OpenSSH differ from
//! each other, and users may expect the behaviour of any of them. A peer that does not know a
//! keyword of the case is left out. Values are compared as far as both print them, relative to the
//! defaults, which differ between versions.

mod case;
mod compare;
mod grammar;
mod known;
mod shrink;
mod values;

use std::fs;
use std::path::Path;

use config::client::CLIENT_TABLE;
use config::lexer::read_line;
use config::server::SERVER_TABLE;
use config::value::{Dump, Support, Table, find};
use interop::fixture;
use interop::scratch::Scratch;

use crate::list::Why;
use crate::peers::{Program, peers};
use crate::run::{Finding, Run, Suite};
use case::{Case, Form, Piece};
use compare::{How, Reader, apart};
use grammar::Grammar;
pub(crate) use known::LISTED;

/// The programs, and the grammar of what they know.
pub(crate) struct Configuration {
    ours: Reader,
    peers: Vec<Reader>,
    grammar: Grammar,
}

impl Suite for Configuration {
    const NAME: &'static str = "config";
    const LISTED: &'static [crate::list::Listed] = LISTED;

    fn new(run: &Run) -> Result<Self, String> {
        let scratch = Scratch::new();
        let folder = scratch.path();
        prepare(folder);
        let names = |table: Table| {
            let names = |keyword: config::value::Keyword| {
                [keyword.name]
                    .into_iter()
                    .chain(keyword.aliases.iter().copied())
            };
            table
                .iter()
                .flat_map(names)
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        let keywords = [names(CLIENT_TABLE), names(SERVER_TABLE)];
        let keywords = [keywords[0].as_slice(), &keywords[1]];
        let ours = Reader::new(Program::ours(), folder, keywords);
        let peers = peers(run.chroot.as_deref())?;
        let peers: Vec<Reader> = peers
            .into_iter()
            .map(|program| Reader::new(program, folder, keywords))
            .collect();
        let grammar =
            Grammar::new(|form, keyword| peers.iter().any(|peer| peer.knows(form, keyword)));
        Ok(Self {
            ours,
            peers,
            grammar,
        })
    }

    fn peers(&self) -> Vec<String> {
        self.peers
            .iter()
            .map(|peer| peer.program.name.clone())
            .collect()
    }

    fn try_case(&self, run: &Run, number: u64) -> Vec<Finding> {
        let scratch = Scratch::new();
        let folder = scratch.path();
        prepare(folder);
        let mut case = self.grammar.case(run.seed, number);
        let mut found = Vec::new();
        if run.is_single() {
            println!("{} as it is made:\n{}", case.form.name(), case.shown());
            self.show(&case, folder);
        }
        while let Some(how) = self.apart(&case, folder).into_iter().next() {
            let small = shrink::smallest(&case, |case| self.apart(case, folder).contains(&how));
            found.push(Finding {
                form: case.form.name(),
                how: how.to_string(),
                case: small.text(),
                shown: format!("{}{}", small.shown(), self.answers(&small, &how, folder)),
            });
            let gone: Vec<usize> = small.pieces.iter().map(|(number, _)| *number).collect();
            if gone.is_empty() {
                break;
            }
            case = case.without(&gone);
        }
        found
    }

    /// Values that the table of keywords lists as unsupported and refused.
    fn follows(&self, finding: &Finding) -> Option<Why> {
        let form = [Form::Client, Form::Server]
            .into_iter()
            .find(|form| form.name() == finding.form)?;
        let line = finding.case.rsplit("; ").next()?;
        let line = line.strip_prefix("-o ").unwrap_or(line);
        let table = table(form);
        let keyword = table.get(find(table, &read_line(line).ok()??.keyword)?)?;
        let is_refused =
            matches!(keyword.support, Support::Restricting(_)) && finding.how == "refuses";
        is_refused.then_some(Why::NotCarried)
    }
}

/// Files in addition to those of a case.
fn prepare(folder: &Path) {
    for (from, to) in [
        ("host_ed25519", "host_key"),
        ("host_ed25519-cert.pub", "host_key-cert.pub"),
    ] {
        fs::copy(fixture::file(from), folder.join(to)).expect("a host key");
    }
}

impl Configuration {
    fn apart(&self, case: &Case, folder: &Path) -> Vec<How> {
        let mine = self.ours.ask(case, folder);
        let asked = self.asked(case);
        let answers: Vec<_> = asked
            .into_iter()
            .map(|peer| (peer, peer.ask(case, folder)))
            .collect();
        apart(case, (&self.ours, &mine), &answers, |keyword| {
            self.prints(case.form, keyword)
        })
    }

    /// True if ours prints this keyword.
    fn prints(&self, form: Form, keyword: &str) -> bool {
        let table = table(form);
        self.ours.keywords(form).any(|known| known == keyword)
            || find(table, keyword)
                .and_then(|index| table.get(index))
                .is_some_and(|keyword| keyword.dump != Dump::Never)
    }

    /// The peers that know every keyword of the case.
    fn asked(&self, case: &Case) -> Vec<&Reader> {
        let knows = |peer: &Reader| {
            case.pieces.iter().all(|(_, piece)| {
                let line = match piece {
                    Piece::Line(line) | Piece::More(line) => line,
                    Piece::Argument(words) if words.first().is_some_and(|flag| flag == "-o") => {
                        &words[1]
                    }
                    Piece::Argument(_) => return true,
                };
                let Ok(Some(read)) = read_line(line) else {
                    return true;
                };
                peer.knows(case.form, &read.keyword)
            })
        };
        match case.form.is_dump() {
            true => self.peers.iter().filter(|peer| knows(peer)).collect(),
            false => self.peers.iter().collect(),
        }
    }

    /// The programs' answers, for a report.
    fn answers(&self, case: &Case, how: &How, folder: &Path) -> String {
        let asked = self.asked(case);
        let lines = [&self.ours].into_iter().chain(asked).map(|reader| {
            let answer = reader.ask(case, folder);
            format!("  {}: {}\n", reader.program.name, answer.printed(how))
        });
        lines.collect()
    }

    fn show(&self, case: &Case, folder: &Path) {
        print!("{}", self.answers(case, &How::Dies, folder));
    }
}

fn table(form: Form) -> Table {
    match form {
        Form::Server => SERVER_TABLE,
        _ => CLIENT_TABLE,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_is_in_the_docs() {
        assert_eq!(crate::list::not_in_the_docs(LISTED), Vec::<&str>::new());
    }
}

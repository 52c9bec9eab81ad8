//! Restrictions: random combinations of the rows of `tests/restrictions`; that crate's probes
//! determine what the holder of the key can still do with either server.
//!
//! Rows are split into parts: options of authorized_keys and of certificates, lines of sshd_config
//! and Match lines. The table's known differences ([`restrictions::differences`]) apply here too.

mod known;

use interop::account::is_root;
use interop::peers::ours::Kind;
use interop::process::installed;
use restrictions::differences::{DIFFERENCES, Verdict, judge, of};
use restrictions::probe::outcomes;
use restrictions::row::{Certificate, Outcomes, Row};
use restrictions::rows;
use restrictions::services::Services;

use crate::run::{Finding, Run, Suite};
use interop::random::Random;
pub(crate) use known::LISTED;

/// Largest number of smaller cases that are tried per case.
const MOST_TRIES: usize = 12;

/// The restrictions of which a case consists.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    /// An option of the key, or of the authority's line.
    Key(String),
    /// A line of sshd_config outside of Match blocks.
    Line(String),
    /// A Match line and one line under it.
    Block(String, String),
    /// The login is by a certificate; its options.
    Certificate(Vec<&'static str>),
}

/// The parts of all rows.
pub(crate) struct Restrictions {
    services: Services,
    keys: Vec<String>,
    lines: Vec<String>,
    blocks: Vec<String>,
    certificates: Vec<&'static str>,
}

impl Suite for Restrictions {
    const NAME: &'static str = "restrictions";
    const LISTED: &'static [crate::list::Listed] = LISTED;
    const AT_ONCE: usize = 2;

    fn new(_run: &Run) -> Result<Self, String> {
        if !is_root() {
            return Err("not root".into());
        }
        let programs = ["ssh", "sshd", "ssh-keygen", "unshare"];
        if let Some(missing) = programs.into_iter().find(|name| installed(name).is_none()) {
            return Err(format!("no {missing}"));
        }
        let mut parts = Self {
            services: Services::start(),
            keys: Vec::new(),
            lines: Vec::new(),
            blocks: Vec::new(),
            certificates: Vec::new(),
        };
        let rows = rows::all();
        let usable = |row: &&Row| !row.is_ours_alone && !row.with_tunnel && !row.as_root;
        for row in rows.iter().filter(usable) {
            parts.take(row);
        }
        Ok(parts)
    }

    fn peers(&self) -> Vec<String> {
        vec!["OpenSSH".into()]
    }

    fn try_case(&self, run: &Run, number: u64) -> Vec<Finding> {
        let pieces = self.case(run.seed, number);
        let (wanted, came) = self.both(&pieces);
        if run.is_single() {
            println!("{}\nOpenSSH: {wanted:#?}\nours: {came:#?}", text(&pieces));
        }
        let probes = apart(&pieces, &wanted, &came);
        // A login that is refused differs in every probe; it is reported once.
        let whole = ["start", "login"]
            .into_iter()
            .find(|probe| probes.contains(probe));
        match whole.or(probes.first().copied()) {
            Some(probe) => vec![self.smallest(&pieces, probe)],
            None => Vec::new(),
        }
    }
}

/// The probes whose results differ from OpenSSH's and are not in the table's list.
fn apart(pieces: &[Piece], wanted: &Outcomes, came: &Outcomes) -> Vec<&'static str> {
    let mut row = row(pieces);
    row.expected = wanted.clone();
    let probes = wanted
        .keys()
        .chain(came.keys().filter(|probe| !wanted.contains_key(*probe)));
    let unlisted = |probe: &&&'static str| match judge(&row, came, probe) {
        Verdict::Same => false,
        Verdict::Listed(index) => DIFFERENCES.get(index).is_none(),
        Verdict::Unlisted => true,
    };
    probes.filter(unlisted).copied().collect()
}

impl Restrictions {
    /// Adds the parts of a row.
    fn take(&mut self, row: &Row) {
        let (refused, faulty) = (
            row.expected.get("login").is_some_and(|login| login == "no"),
            row.expected.contains_key("start"),
        );
        if faulty {
            return;
        }
        let add = |to: &mut Vec<String>, text: &str| {
            if !to.iter().any(|have| have == text) {
                to.push(text.to_owned());
            }
        };
        let options = row.authorized.strip_suffix(" {key}\n");
        if let Some(options) = options.filter(|options| !options.contains('\n') && !refused) {
            add(&mut self.keys, options);
        }
        if let Some(certificate) = row.certificate.as_ref().filter(|_| !refused) {
            for option in &certificate.options {
                if !self.certificates.contains(option) {
                    self.certificates.push(option);
                }
            }
        }
        // A part that is refused by itself would hide everything else.
        if row.files.is_empty() && row.certificate.is_none() && !refused {
            for line in row.first.lines() {
                add(&mut self.lines, line);
            }
        }
        for line in row.blocks.lines().filter(|line| line.starts_with("Match ")) {
            add(&mut self.blocks, line);
        }
    }

    /// The case of these numbers.
    fn case(&self, seed: u64, number: u64) -> Vec<Piece> {
        let mut random = Random::of_case(seed ^ 0x7265_7374, number);
        let random = &mut random;
        let mut pieces = Vec::new();
        if random.chance(35) {
            let options = (0..random.below(3)).map(|_| *random.pick_of(&self.certificates));
            pieces.push(Piece::Certificate(options.collect()));
        }
        for _ in 0..random.below(3) {
            pieces.push(Piece::Key(random.pick_of(&self.keys).clone()));
        }
        for _ in 0..random.below(3) {
            pieces.push(Piece::Line(random.pick_of(&self.lines).clone()));
        }
        for _ in 0..random.below(3) {
            let line = random.pick_of(&self.lines).clone();
            pieces.push(Piece::Block(random.pick_of(&self.blocks).clone(), line));
        }
        pieces
    }

    /// What OpenSSH's server and ours permit to the holder.
    fn both(&self, pieces: &[Piece]) -> (Outcomes, Outcomes) {
        let row = row(pieces);
        let (wanted, _) = outcomes(&row, Kind::OpenSsh, &self.services);
        let (came, _) = outcomes(&row, Kind::Fulmar, &self.services);
        (wanted, came)
    }

    fn smallest(&self, pieces: &[Piece], probe: &'static str) -> Finding {
        let mut pieces = pieces.to_vec();
        let mut left = MOST_TRIES;
        'again: loop {
            for at in 0..pieces.len() {
                if left == 0 {
                    break 'again;
                }
                left -= 1;
                let mut fewer = pieces.clone();
                fewer.remove(at);
                let (wanted, came) = self.both(&fewer);
                if apart(&fewer, &wanted, &came).contains(&probe) {
                    pieces = fewer;
                    continue 'again;
                }
            }
            break;
        }
        let (wanted, came) = self.both(&pieces);
        let mut shown = format!("  {}\n", text(&pieces));
        for probe in apart(&pieces, &wanted, &came) {
            let (is, other) = (of(&came, probe), of(&wanted, probe));
            shown.push_str(&format!("  {probe}: ours {is:?}, OpenSSH {other:?}\n"));
        }
        Finding {
            form: "restrictions",
            how: format!(
                "{probe}: {:?} not {:?}",
                of(&came, probe),
                of(&wanted, probe)
            ),
            case: text(&pieces),
            shown,
        }
    }
}

/// The row that is equivalent to a case.
fn row(pieces: &[Piece]) -> Row {
    let mut row = Row::new(text(pieces));
    let mut options = Vec::new();
    for piece in pieces {
        match piece {
            Piece::Key(option) => options.push(option.as_str()),
            Piece::Line(line) => row.first.push_str(&format!("{line}\n")),
            Piece::Block(criteria, line) => row.blocks.push_str(&format!("{criteria}\n{line}\n")),
            Piece::Certificate(options) => {
                row.certificate = Some(Certificate {
                    principals: Some("{user}"),
                    options: options.clone(),
                    validity: None,
                    is_host: false,
                });
            }
        }
    }
    let key = match row.certificate {
        Some(_) => {
            options.insert(0, "cert-authority");
            "{ca}"
        }
        None => "{key}",
    };
    let blank = if options.is_empty() { "" } else { " " };
    row.authorized = format!("{}{blank}{key}\n", options.join(","));
    row
}

/// One line for the list and for reports.
fn text(pieces: &[Piece]) -> String {
    let texts = pieces.iter().map(|piece| match piece {
        Piece::Key(option) => format!("key: {option}"),
        Piece::Line(line) => line.clone(),
        Piece::Block(criteria, line) => format!("{criteria}: {line}"),
        Piece::Certificate(options) => format!("certificate: {}", options.join(" ")),
    });
    texts.collect::<Vec<_>>().join("; ")
}

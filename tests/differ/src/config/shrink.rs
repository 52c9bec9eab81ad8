//! Finds the smallest case in which ours still differs in the same way.

use config::lexer::{read_line, split_words};

use super::case::{Case, Piece};

/// Largest number of candidates per case.
const MOST_TRIES: usize = 300;

/// Makes `case` smaller while `holds` is true, which it must be at the start.
pub(crate) fn smallest(case: &Case, mut holds: impl FnMut(&Case) -> bool) -> Case {
    let mut case = case.clone();
    let mut left = MOST_TRIES;
    'again: loop {
        for candidate in candidates(&case) {
            if left == 0 {
                return case;
            }
            left -= 1;
            if holds(&candidate) {
                case = candidate;
                continue 'again;
            }
        }
        return case;
    }
}

/// Cases that are a step simpler.
fn candidates(case: &Case) -> Vec<Case> {
    let mut found = Vec::new();
    if case.pieces.len() > 2 {
        let half = case.pieces.len() / 2;
        for pieces in [&case.pieces[..half], &case.pieces[half..]] {
            found.push(Case {
                pieces: pieces.to_vec(),
                ..case.clone()
            });
        }
    }
    found.extend(
        case.pieces
            .iter()
            .map(|(number, _)| case.without(&[*number])),
    );
    for at in 0..case.pieces.len() {
        for simpler in simpler(case, &case.pieces[at].1) {
            let mut next = case.clone();
            next.pieces[at].1 = simpler;
            found.push(next);
        }
    }
    found
}

fn simpler(case: &Case, piece: &Piece) -> Vec<Piece> {
    match piece {
        Piece::Line(line) if case.form.is_dump() => {
            lines(line).into_iter().map(Piece::Line).collect()
        }
        Piece::Line(line) => {
            let words: Vec<&str> = line.split(' ').collect();
            (0..words.len())
                .filter(|_| words.len() > 1)
                .map(|gone| without_word(&words, gone))
                .map(Piece::Line)
                .collect()
        }
        Piece::More(line) => vec![Piece::Line(line.clone())],
        Piece::Argument(words) => match words.as_slice() {
            [flag, line] if flag == "-o" => vec![Piece::Line(line.replacen('=', " ", 1))],
            _ => Vec::new(),
        },
    }
}

fn without_word(words: &[&str], gone: usize) -> String {
    let kept = words.iter().enumerate().filter(|(at, _)| *at != gone);
    kept.map(|(_, word)| *word).collect::<Vec<_>>().join(" ")
}

/// The line in the usual form, and without one word or one part of a list.
fn lines(line: &str) -> Vec<String> {
    let mut found = Vec::new();
    let Ok(Some(read)) = read_line(line) else {
        return found;
    };
    let keyword = config::value::find(config::client::CLIENT_TABLE, &read.keyword)
        .and_then(|index| config::client::CLIENT_TABLE.get(index))
        .or_else(|| {
            let table = config::server::SERVER_TABLE;
            table.get(config::value::find(table, &read.keyword)?)
        });
    let name = match keyword {
        Some(keyword)
            if keyword
                .aliases
                .iter()
                .all(|alias| !alias.eq_ignore_ascii_case(&read.keyword)) =>
        {
            keyword.name.to_owned()
        }
        _ => read.keyword.clone(),
    };
    let whole = |rest: &str| match rest {
        "" => name.clone(),
        _ => format!("{name} {rest}"),
    };
    if let Ok(words) = split_words(read.rest, true) {
        let plain = words.iter().all(|word| {
            !word.is_empty() && !word.contains(|c: char| c.is_whitespace() || "\"'\\#".contains(c))
        });
        if plain {
            found.push(whole(&words.join(" ")));
        }
    }
    found.push(whole(read.rest));
    let words: Vec<&str> = read.rest.split(' ').collect();
    if words.len() > 1 {
        found.extend((0..words.len()).map(|gone| whole(&without_word(&words, gone))));
    }
    for (at, word) in words.iter().enumerate() {
        let parts: Vec<&str> = word.split(',').collect();
        for gone in (0..parts.len()).filter(|_| parts.len() > 1) {
            let mut parts = parts.clone();
            parts.remove(gone);
            let (mut words, part) = (words.clone(), parts.join(","));
            words[at] = &part;
            found.push(whole(&words.join(" ")));
        }
    }
    // The usual form is kept: a candidate of the same length is a step only if it has this form.
    found.retain(|simpler| simpler != line && simpler.len() <= line.len());
    found
}

#[cfg(test)]
mod tests {
    use super::super::case::Form;
    use super::*;

    #[test]
    fn what_does_not_matter_goes() {
        let line = |text: &str| Piece::Line(text.into());
        let case = Case {
            form: Form::Client,
            pieces: vec![
                (0, line("User a")),
                (1, line("  cIPHERS = \"aes128-ctr,bad\"  x # comment")),
                (2, Piece::Argument(vec!["-p".into(), "5".into()])),
                (3, line("Port 7")),
            ],
            subject: vec!["h".into()],
        };
        let small = smallest(&case, |case| case.text().contains("bad"));
        assert_eq!(small.text(), "Ciphers bad");
        assert_eq!(small.pieces[0].0, 1);
    }
}

//! Names with ranges, in the syntax of pdsh and clush: `n[001-512]`, `r[1-2]n[1-4,7]`, `a[0-8/2]`.
//!
//! A number that is written with leading zeros gives all numbers of its range that width. Brackets
//! around an address (`[::1]`, `[127.0.0.1]:22`) are no range. [`fold`] is the reverse, for messages.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

/// Most hosts of one run.
pub(crate) const MAX_HOSTS: usize = 100_000;

/// One part of a pattern.
enum NamePart<'p> {
    Text(&'p str),
    Numbers(Vec<String>),
}

/// Splits a list at its commas and white space, except inside brackets.
pub(crate) fn split(list: &str) -> Vec<&str> {
    let mut depth = 0_usize;
    let is_between = |letter: char| {
        match letter {
            '[' => depth += 1,
            ']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth == 0 && (letter == ',' || letter.is_whitespace())
    };
    let words = list.split(is_between);
    words.filter(|word| !word.is_empty()).collect()
}

/// The names of one pattern, in order; at most `most`.
///
/// # Errors
/// The message about the mistake.
pub(crate) fn expand(pattern: &str, most: usize) -> Result<Vec<String>, String> {
    let parts = parts(pattern, most)?;
    let count = parts.iter().try_fold(1_usize, |count, part| match part {
        NamePart::Text(_) => Some(count),
        NamePart::Numbers(numbers) => count.checked_mul(numbers.len()),
    });
    if count.is_none_or(|count| count > most) {
        return Err(too_many(pattern));
    }
    let mut names = vec![String::new()];
    for part in parts {
        names = match part {
            NamePart::Text(text) => names.into_iter().map(|name| name + text).collect(),
            NamePart::Numbers(numbers) => names
                .iter()
                .flat_map(|name| numbers.iter().map(move |number| format!("{name}{number}")))
                .collect(),
        };
    }
    Ok(names)
}

fn too_many(pattern: &str) -> String {
    format!(
        "{}: more than {MAX_HOSTS} hosts: run them in several parts",
        escape::one_line(pattern)
    )
}

fn parts(pattern: &str, most: usize) -> Result<Vec<NamePart<'_>>, String> {
    let mut parts = Vec::new();
    let mut rest = pattern;
    while let Some((before, after)) = rest.split_once('[') {
        let Some((inside, behind)) = after.split_once(']') else {
            return Err(bad(pattern, "a bracket is not closed"));
        };
        if inside.contains(':') || inside.parse::<Ipv4Addr>().is_ok() {
            let end = before.len() + inside.len() + 2;
            let (address, behind) = rest.split_at(end);
            parts.push(NamePart::Text(address));
            rest = behind;
            continue;
        }
        parts.push(NamePart::Text(before));
        parts.push(NamePart::Numbers(numbers(pattern, inside, most)?));
        rest = behind;
    }
    if rest.contains(']') {
        return Err(bad(pattern, "a bracket is not opened"));
    }
    parts.push(NamePart::Text(rest));
    Ok(parts)
}

fn bad(pattern: &str, why: &str) -> String {
    format!(
        "bad range in \"{}\": {why}: write for example n[001-512] or n[1-4,7]",
        escape::one_line(pattern)
    )
}

fn numbers(pattern: &str, inside: &str, most: usize) -> Result<Vec<String>, String> {
    let mut all = Vec::new();
    for range in inside.split(',') {
        let (ends, step) = match range.split_once('/') {
            Some((ends, step)) => (ends, number(pattern, step)?.max(1)),
            None => (range, 1),
        };
        let (first, last) = ends.split_once('-').unwrap_or((ends, ends));
        let (low, high) = (number(pattern, first)?, number(pattern, last)?);
        if low > high {
            return Err(bad(pattern, "it ends before it begins"));
        }
        let is_padded = first.len() > 1 && first.starts_with('0');
        let width = if is_padded { first.len() } else { 0 };
        let count = (high - low) / step + 1;
        let room = u64::try_from(most.saturating_sub(all.len())).unwrap_or(u64::MAX);
        if count > room {
            return Err(too_many(pattern));
        }
        let values = (0..count).map(|index| low + index * step);
        all.extend(values.map(|value| format!("{value:0width$}")));
    }
    Ok(all)
}

fn number(pattern: &str, digits: &str) -> Result<u64, String> {
    if digits.is_empty() {
        return Err(bad(pattern, "a number is missing"));
    }
    let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
    // 18 digits stay below 2^63.
    if !is_number || digits.len() > 18 {
        return Err(bad(pattern, "it is not made of numbers"));
    }
    digits
        .parse()
        .map_err(|_| bad(pattern, "it is not made of numbers"))
}

/// Names that differ in their last number only, as one pattern each: `n[1-3,7]`; escaped for one line
/// of a message.
pub(crate) fn fold<'n>(names: impl IntoIterator<Item = &'n str>) -> String {
    // By the text around the number and the number's width.
    let mut groups: BTreeMap<(&str, &str, usize), Vec<u64>> = BTreeMap::new();
    let mut plain = Vec::new();
    for name in names {
        match last_number(name) {
            Some((before, digits, behind, value)) => {
                let key = (before, behind, digits.len());
                groups.entry(key).or_default().push(value);
            }
            None => plain.push(name.to_owned()),
        }
    }
    let mut folded: Vec<String> = Vec::new();
    // Numbers of several widths make one pattern where none is padded.
    let mut merged: BTreeMap<(&str, &str, usize), Vec<u64>> = BTreeMap::new();
    for ((before, behind, width), mut values) in groups {
        let low = 10_u64.pow(u32::try_from(width - 1).unwrap_or(0));
        let is_padded = width > 1 && values.iter().any(|value| *value < low);
        let width = if is_padded { width } else { 0 };
        merged
            .entry((before, behind, width))
            .or_default()
            .append(&mut values);
    }
    for ((before, behind, width), mut values) in merged {
        values.sort_unstable();
        values.dedup();
        let list = runs(&values, width);
        folded.push(match list.contains([',', '-']) {
            true => format!("{before}[{list}]{behind}"),
            false => format!("{before}{list}{behind}"),
        });
    }
    folded.extend(plain);
    escape::one_line(folded.join(","))
}

/// The last run of digits of a name, with what is around it; `None` without one that is short enough.
fn last_number(name: &str) -> Option<(&str, &str, &str, u64)> {
    let end = name.rfind(|letter: char| letter.is_ascii_digit())? + 1;
    let (head, behind) = name.split_at(end);
    let digits_at = head.trim_end_matches(|letter: char| letter.is_ascii_digit());
    let (before, digits) = head.split_at(digits_at.len());
    (digits.len() <= 18).then_some(())?;
    Some((before, digits, behind, digits.parse().ok()?))
}

fn runs(values: &[u64], width: usize) -> String {
    let mut out: Vec<String> = Vec::new();
    let mut rest = values.iter().copied().peekable();
    while let Some(first) = rest.next() {
        let mut last = first;
        while let Some(next) = rest.next_if(|next| *next == last + 1) {
            last = next;
        }
        out.push(match last == first {
            true => format!("{first:0width$}"),
            false => format!("{first:0width$}-{last:0width$}"),
        });
    }
    out.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expanded(pattern: &str) -> String {
        match expand(pattern, MAX_HOSTS) {
            Ok(names) => names.join(" "),
            Err(why) => why,
        }
    }

    #[test]
    fn ranges_are_those_of_pdsh_and_clush() {
        for (pattern, names) in [
            ("n", "n"),
            ("n[1-3]", "n1 n2 n3"),
            ("n[08-11].x", "n08.x n09.x n10.x n11.x"),
            ("n[8-11]", "n8 n9 n10 n11"),
            ("n[1,5,03-04]", "n1 n5 n03 n04"),
            ("r[1-2]n[1-2]", "r1n1 r1n2 r2n1 r2n2"),
            ("n[0-6/3]", "n0 n3 n6"),
            ("u@n[1-2]:22", "u@n1:22 u@n2:22"),
            ("u@[::1]:22", "u@[::1]:22"),
            ("[fe80::1]", "[fe80::1]"),
        ] {
            assert_eq!(expanded(pattern), names, "{pattern}");
        }
    }

    #[test]
    fn bad_ranges_are_refused_with_words() {
        for (pattern, why) in [
            ("n[]", "a number is missing"),
            ("n[1-]", "a number is missing"),
            ("n[1,]", "a number is missing"),
            ("n[5-1]", "ends before"),
            ("n[a-b]", "not made of numbers"),
            ("n[1", "not closed"),
            ("n1]", "not opened"),
            ("n[1-1000000000]", "more than 100000 hosts"),
            ("n[0-999999999999999999]", "more than 100000 hosts"),
            ("n[1-99999][1-99999]", "more than 100000 hosts"),
            ("n[1-9999999999999999999999]", "not made of numbers"),
        ] {
            assert!(
                expanded(pattern).contains(why),
                "{pattern}: {}",
                expanded(pattern)
            );
        }
        assert!(expand("n[1-100000]", MAX_HOSTS).is_ok());
        assert!(expand("n[1-100001]", MAX_HOSTS).is_err());
    }

    #[test]
    fn commas_inside_brackets_do_not_split() {
        assert_eq!(split(" a,b[1,2] c\n,d"), ["a", "b[1,2]", "c", "d"]);
        assert_eq!(split(""), Vec::<&str>::new());
    }

    #[test]
    fn names_fold_to_what_expands_to_them() {
        for (names, folded) in [
            ("n1 n2 n3 n7", "n[1-3,7]"),
            ("n9 n10 n11", "n[9-11]"),
            ("n008 n009 n010 web", "n[008-010],web"),
            ("n1", "n1"),
            ("u@n1:22 u@n1:23", "u@n1:[22-23]"),
            ("r1n1 r1n2 r2n1", "r1n[1-2],r2n1"),
        ] {
            assert_eq!(fold(names.split(' ')), folded);
        }
        let names = expand("n[098-102]", MAX_HOSTS).unwrap();
        assert_eq!(fold(names.iter().map(String::as_str)), "n[098-102]");
    }
}

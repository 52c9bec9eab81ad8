//! The text encoding of binary keys: PEM (RFC 7468, RFC 1421 headers).

use zeroize::Zeroizing;

use crate::base64;
use crate::lines::lines;

/// An armoured block.
#[derive(Debug)]
pub(crate) struct PemBlock<'a> {
    /// The label after `BEGIN`.
    pub(crate) label: &'a str,
    /// `name: value` lines before the base64.
    pub(crate) headers: Vec<(&'a str, &'a str)>,
    /// The decoded content.
    pub(crate) body: Zeroizing<Vec<u8>>,
}

impl<'a> PemBlock<'a> {
    /// Value of the first header with this name.
    pub(crate) fn header(&self, name: &str) -> Option<&'a str> {
        self.headers
            .iter()
            .find_map(|(known, value)| (*known == name).then_some(*value))
    }
}

/// Limit on the headers of a block.
const MAX_HEADERS: usize = 16;

/// Finds the first block whose label `wanted` accepts; `None` if there is none or it is damaged.
pub(crate) fn find(text: &[u8], wanted: impl Fn(&str) -> bool) -> Option<PemBlock<'_>> {
    let mut lines = lines(text).map(|line| core::str::from_utf8(line.text?).ok());
    let label = lines.by_ref().find_map(|line| {
        line.and_then(|line| line.trim_end().strip_prefix("-----BEGIN "))
            .and_then(|rest| rest.strip_suffix("-----"))
            .filter(|label| wanted(label))
    })?;
    let end = format!("-----END {label}-----");
    let mut headers = Vec::new();
    let mut coded = Zeroizing::new(Vec::with_capacity(text.len()));
    for line in lines {
        let line = line?.trim();
        if line == end {
            let body = base64::decode(&coded)?;
            return Some(PemBlock {
                label,
                headers,
                body,
            });
        }
        // Base64 does not use colons.
        match line.split_once(": ") {
            Some(header) if coded.is_empty() && headers.len() < MAX_HEADERS => headers.push(header),
            Some(_) => return None,
            None => coded.extend_from_slice(line.as_bytes()),
        }
    }
    None
}

/// Encodes a block in lines of `width` characters.
pub(crate) fn write(
    label: &str,
    headers: &[(&str, &str)],
    body: &[u8],
    width: usize,
) -> Zeroizing<String> {
    let coded = base64::encode_lines(body, width);
    let mut out = Zeroizing::new(String::with_capacity(coded.len() + 256));
    out.push_str(&format!("-----BEGIN {label}-----\n"));
    for (name, value) in headers {
        out.push_str(&format!("{name}: {value}\n"));
    }
    if !headers.is_empty() {
        out.push('\n');
    }
    out.push_str(&coded);
    out.push_str(&format!("-----END {label}-----\n"));
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_found_behind_others_and_with_headers() {
        let body = [7_u8; 100];
        let text = write("B KEY", &[("H", "v"), ("I", "w")], &body, 64);
        let file = format!("junk\n-----BEGIN A-----\nAAAA\n-----END A-----\n{}", *text);
        let block = find(file.as_bytes(), |label| label.ends_with("KEY")).unwrap();
        assert_eq!(block.label, "B KEY");
        assert_eq!(
            (block.header("H"), block.header("I")),
            (Some("v"), Some("w"))
        );
        assert_eq!(block.header("J"), None);
        assert_eq!(block.body.as_slice(), body);
    }

    #[test]
    fn blocks_without_end_or_with_damage_are_none() {
        for bad in [
            "-----BEGIN K-----\nAAAA\n",
            "-----BEGIN K-----\nAA*A\n-----END K-----\n",
            "-----BEGIN K-----\nAAAA\nX: y\n-----END K-----\n",
            "-----BEGIN K-----\nAAAA\n-----END L-----\n",
            "-----BEGIN K\nAAAA\n-----END K-----\n",
        ] {
            assert!(find(bad.as_bytes(), |_| true).is_none(), "{bad}");
        }
    }
}

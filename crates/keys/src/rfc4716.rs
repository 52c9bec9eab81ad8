//! The lines of a key file in the format of RFC 4716, which ssh.com's private keys have too.

use zeroize::Zeroizing;

use crate::base64;
use crate::error::KeyError;

/// The base64 text between the lines `begin` and `end` in the format of RFC 4716, and the comment.
/// A line may end in LF, CRLF or CR (§3.1).
///
/// # Errors
/// [`KeyError::Invalid`].
pub(crate) fn armored(
    file: &[u8],
    begin: &str,
    end: &str,
) -> Result<(Zeroizing<Vec<u8>>, String), KeyError> {
    let malformed = KeyError::Invalid("file is not in the format of RFC 4716");
    let text = core::str::from_utf8(file).map_err(|_| malformed.clone())?;
    let mut lines = text.split(['\r', '\n']).map(str::trim_end);
    let mut lines = lines.by_ref().filter(|line| !line.is_empty());
    lines
        .by_ref()
        .find(|line| *line == begin)
        .ok_or(malformed.clone())?;
    let mut comment = String::new();
    let mut coded = Zeroizing::new(String::with_capacity(file.len()));
    while let Some(line) = lines.next() {
        if line == end {
            let blob =
                base64::decode(coded.as_bytes()).ok_or(KeyError::Invalid("key is not base64"))?;
            return Ok((blob, comment));
        }
        match line.split_once(':') {
            Some((name, value)) if coded.is_empty() => {
                let mut value = value.trim_start().to_owned();
                // A backslash at the end continues the header on the next line (§3.3).
                while value.ends_with('\\') {
                    value.pop();
                    value.push_str(lines.next().ok_or(malformed.clone())?);
                }
                if name.eq_ignore_ascii_case("Comment") {
                    value.trim_matches('"').clone_into(&mut comment);
                }
            }
            Some(_) => return Err(malformed),
            None => coded.push_str(line),
        }
    }
    Err(malformed)
}

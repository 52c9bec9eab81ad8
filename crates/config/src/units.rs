//! Times, sizes, IPQoS names and other small value forms of ssh_config(5) and sshd_config(5), TIME FORMATS.

/// Parses a time such as `90`, `1h30m` or `2W` as whole seconds. `None` if it is malformed or
/// exceeds `i32::MAX`.
pub fn parse_seconds(text: &str) -> Option<u32> {
    if text.is_empty() {
        return None;
    }
    let mut total: u32 = 0;
    let mut rest = text;
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let (number, after) = rest.split_at_checked(digits)?;
        let number: u32 = number.parse().ok()?;
        let mut letters = after.chars();
        let unit: u32 = match letters.next() {
            None | Some('s' | 'S') => 1,
            Some('m' | 'M') => 60,
            Some('h' | 'H') => 3600,
            Some('d' | 'D') => 86_400,
            Some('w' | 'W') => 604_800,
            Some(_) => return None,
        };
        rest = letters.as_str();
        total = total.checked_add(number.checked_mul(unit)?)?;
    }
    i32::try_from(total).ok().map(|_| total)
}

/// Parses a time that may have a fraction (`0.5`, `1.25s`, `2m`) as milliseconds, as sshd's
/// `PerSourcePenalties` does. `None` if it is malformed or exceeds `i32::MAX` seconds.
pub fn parse_milliseconds(text: &str) -> Option<u64> {
    if let Some(seconds) = parse_seconds(text) {
        return u64::from(seconds).checked_mul(1000);
    }
    let (body, unit) = match text.char_indices().next_back()? {
        (at, 's' | 'S') => (text.get(..at)?, 1_u64),
        (at, 'm' | 'M') => (text.get(..at)?, 60),
        (at, 'h' | 'H') => (text.get(..at)?, 3600),
        _ => (text, 1),
    };
    let (whole, fraction) = body.split_once('.')?;
    let all_digits = |s: &str| s.bytes().all(|b| b.is_ascii_digit());
    if whole.is_empty() || fraction.is_empty() || fraction.len() > 9 {
        return None;
    }
    if !all_digits(whole) || !all_digits(fraction) {
        return None;
    }
    let whole: u64 = whole.parse().ok()?;
    let mut thousandths: u64 = 0;
    for digit in fraction.bytes().chain(*b"000").take(3) {
        thousandths = thousandths * 10 + u64::from(digit - b'0');
    }
    let milliseconds = whole
        .checked_mul(1000)?
        .checked_add(thousandths)?
        .checked_mul(unit)?;
    (milliseconds <= 1000 * 2_147_483_647).then_some(milliseconds)
}

/// Parses a time of `ChannelTimeout` as milliseconds: as [`parse_seconds`], and the seconds may have
/// a fraction (`.5`, `1m30.5s`). A time that is not 0 is at least one millisecond. `None` if it is
/// malformed.
pub fn parse_channel_time(text: &str) -> Option<u64> {
    let (mut total_ms, mut seconds_named, mut has_fraction) = (0_u64, 0, false);
    let mut rest = text;
    while !rest.is_empty() {
        let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
        let (whole, after) = rest.split_at_checked(digits(rest))?;
        let (fraction, after) = match after.strip_prefix('.') {
            Some(after) => after.split_at_checked(digits(after).max(1))?,
            None => ("", after),
        };
        let unit: u64 = match after.chars().next() {
            None | Some('s' | 'S') => 1,
            Some(_) if !fraction.is_empty() => return None,
            Some('m' | 'M') => 60,
            Some('h' | 'H') => 3600,
            Some('d' | 'D') => 86_400,
            Some('w' | 'W') => 604_800,
            Some(_) => return None,
        };
        rest = after.get(1..).unwrap_or_default();
        seconds_named += u32::from(unit == 1);
        has_fraction |= !fraction.is_empty();
        let whole: u64 = match whole {
            "" if !fraction.is_empty() => 0,
            digits => digits.parse().ok()?,
        };
        let mut thousandths = 0;
        for digit in fraction.bytes().chain(*b"000").take(3) {
            thousandths =
                thousandths * 10 + u64::from(digit.checked_sub(b'0').filter(|d| *d < 10)?);
        }
        if thousandths == 0 && fraction.bytes().any(|digit| digit != b'0') {
            thousandths = 1;
        }
        let milliseconds = whole.saturating_mul(unit).saturating_mul(1000);
        total_ms = total_ms.saturating_add(milliseconds.saturating_add(thousandths));
    }
    // OpenSSH adds a fraction to one number of seconds only.
    (!text.is_empty() && (!has_fraction || seconds_named == 1)).then_some(total_ms)
}

/// Formats milliseconds as `sshd -T` prints a penalty: seconds with a fraction of six digits.
pub fn format_milliseconds(milliseconds: u64) -> String {
    let (seconds, rest) = (milliseconds / 1000, milliseconds % 1000);
    format!("{seconds}.{rest:03}000")
}

/// Most digits after the decimal point of a size.
const MAX_FRACTION_DIGITS: usize = 9;

/// Parses a size with an optional fraction and an optional suffix B, K, M, G or T (powers of 1024)
/// as bytes, rounded down: `1.5G` is 1610612736. `None` if it is malformed or larger than
/// `i64::MAX`.
pub fn parse_bytes(text: &str) -> Option<u64> {
    let shift = match text.chars().next_back()? {
        'b' | 'B' => Some(0),
        'k' | 'K' => Some(10),
        'm' | 'M' => Some(20),
        'g' | 'G' => Some(30),
        't' | 'T' => Some(40),
        _ => None,
    };
    let (number, scale) = match shift {
        Some(shift) => (text.get(..text.len() - 1)?, 1_u128 << shift),
        None => (text, 1),
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let all_digits = |s: &str| s.bytes().all(|b| b.is_ascii_digit());
    if (whole.is_empty() && fraction.is_empty())
        || !all_digits(whole)
        || !all_digits(fraction)
        || fraction.len() > MAX_FRACTION_DIGITS
    {
        return None;
    }
    let whole: u128 = format!("0{whole}").parse().ok()?;
    let parts: u128 = format!("0{fraction}").parse().ok()?;
    let divisor = 10_u128.checked_pow(u32::try_from(fraction.len()).ok()?)?;
    let bytes = whole.checked_mul(scale)? + parts * scale / divisor;
    i64::try_from(bytes)
        .ok()
        .and_then(|n| u64::try_from(n).ok())
}

/// Names of `IPQoS` with the value of the IP type-of-service byte (RFC 1349, 2474, 8622); -1 sets
/// none.
pub const IPQOS_NAMES: &[(&str, i64)] = &[
    ("none", -1),
    ("af11", 0x28),
    ("af12", 0x30),
    ("af13", 0x38),
    ("af21", 0x48),
    ("af22", 0x50),
    ("af23", 0x58),
    ("af31", 0x68),
    ("af32", 0x70),
    ("af33", 0x78),
    ("af41", 0x88),
    ("af42", 0x90),
    ("af43", 0x98),
    ("cs0", 0x00),
    ("cs1", 0x20),
    ("cs2", 0x40),
    ("cs3", 0x60),
    ("cs4", 0x80),
    ("cs5", 0xa0),
    ("cs6", 0xc0),
    ("cs7", 0xe0),
    ("ef", 0xb8),
    ("le", 0x04),
    ("va", 0xb0),
    // OpenSSH 10.6 accepts the names of RFC 1349 and marks nothing: their bits have another meaning
    // today (RFC 3168).
    ("lowdelay", -1),
    ("throughput", -1),
    ("reliability", -1),
];

/// Parses an `IPQoS` name or number (decimal, 0x hexadecimal or 0 octal, at most 255); `-1` is
/// `none`.
pub fn parse_ipqos(text: &str) -> Option<i64> {
    if let Some((_, value)) = IPQOS_NAMES
        .iter()
        .find(|(name, _)| name.eq_ignore_ascii_case(text))
    {
        return Some(*value);
    }
    let value = if let Some(hex) = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        i64::from_str_radix(hex, 16).ok()?
    } else if text.len() > 1 && text.starts_with('0') {
        i64::from_str_radix(text, 8).ok()?
    } else {
        text.parse().ok()?
    };
    (0..=255).contains(&value).then_some(value)
}

/// The name that `-G` prints for a type-of-service value, or its hexadecimal number.
pub fn format_ipqos(value: i64) -> String {
    match IPQOS_NAMES.iter().find(|(_, v)| *v == value) {
        Some((name, _)) => (*name).to_owned(),
        None => format!("0x{value:02x}"),
    }
}

/// Parses a TCP port: a number from 1 to 65535.
pub fn parse_port(text: &str) -> Option<u16> {
    if text.is_empty() || !text.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    text.parse::<u16>().ok().filter(|port| *port != 0)
}

/// Parses an octal file mode of at most 0777.
pub fn parse_mode(text: &str) -> Option<u32> {
    if text.is_empty() || !text.bytes().all(|b| (b'0'..=b'7').contains(&b)) {
        return None;
    }
    u32::from_str_radix(text, 8)
        .ok()
        .filter(|mode| *mode <= 0o777)
}

/// Splits `host:port`, `[host]:port`, `host/port` or a bare host. An IPv6 address needs brackets to
/// have a port; without them several colons are one address.
pub fn split_host_port(text: &str) -> Option<(&str, Option<&str>)> {
    if let Some(rest) = text.strip_prefix('[') {
        let (host, after) = rest.split_once(']')?;
        return match after.strip_prefix(':').or_else(|| after.strip_prefix('/')) {
            Some(port) => Some((host, Some(port))),
            None => after.is_empty().then_some((host, None)),
        };
    }
    match text.split_once([':', '/']) {
        Some((_, port)) if port.contains(':') => Some((text, None)),
        Some((host, port)) => Some((host, Some(port))),
        None => Some((text, None)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As OpenSSH 10.6 does.
    #[test]
    fn times_of_channels_may_have_a_fraction() {
        for (text, milliseconds) in [
            ("0", 0),
            ("5m", 300_000),
            ("1m30", 90_000),
            ("1.5", 1500),
            (".5", 500),
            ("0.5s", 500),
            ("1.5S", 1500),
            ("1m30.5s", 90_500),
            ("1.5s1m", 61_500),
            ("1m.5", 60_500),
            ("0.0", 0),
            ("0.0000001", 1),
            ("1.9999999", 1999),
            ("99999999999999", 99_999_999_999_999_000),
        ] {
            assert_eq!(parse_channel_time(text), Some(milliseconds), "{text}");
        }
        for text in [
            "", "5.", ".", "1.5m", "1e3", "-1", "+1", "1,5", "1.5.5", "1.5h3", "1.25s5", "30s1.5",
            "s", "0x10", "1ms", "none",
        ] {
            assert_eq!(parse_channel_time(text), None, "{text}");
        }
    }

    #[test]
    fn times() {
        for (text, expected) in [
            ("0", Some(0)),
            ("90", Some(90)),
            ("1h30m", Some(5400)),
            ("10m30", Some(630)),
            ("2W", Some(1_209_600)),
            ("1d1D", Some(172_800)),
            ("", None),
            ("m", None),
            ("1x", None),
            ("-1", None),
            ("1 m", None),
            ("1é", None),
            ("99999999999", None),
            ("2147483647", Some(2_147_483_647)),
            ("2147483648", None),
            ("9999999w", None),
        ] {
            assert_eq!(parse_seconds(text), expected, "{text}");
        }
        assert_eq!(parse_milliseconds("0.5"), Some(500));
        assert_eq!(parse_milliseconds("1.25s"), Some(1250));
        assert_eq!(parse_milliseconds("1h30m"), Some(5_400_000));
        assert_eq!(parse_milliseconds("."), None);
        assert_eq!(parse_milliseconds("1.é"), None);
        assert_eq!(format_milliseconds(1500), "1.500000");
        assert_eq!(format_milliseconds(90_000), "90.000000");
    }

    #[test]
    fn sizes_ports_modes() {
        assert_eq!(parse_bytes("1G"), Some(1 << 30));
        assert_eq!(parse_bytes("16"), Some(16));
        for (text, bytes) in [
            ("1.5G", Some(3 << 29)),
            (".5G", Some(1 << 29)),
            ("1.G", Some(1 << 30)),
            ("1.999", Some(1)),
            ("1T", Some(1 << 40)),
            ("1b", Some(1)),
            (".", None),
            (".G", None),
            ("1.5.5", None),
            ("-1", None),
            ("1e3", None),
            ("8388608T", None),
        ] {
            assert_eq!(parse_bytes(text), bytes, "{text}");
        }
        assert_eq!(parse_bytes("K"), None);
        assert_eq!(parse_bytes("1é"), None);
        assert_eq!(parse_bytes("99999999999G"), None);
        assert_eq!(parse_port("65535"), Some(65535));
        assert_eq!(parse_port("65536"), None);
        assert_eq!(parse_port("0"), None);
        assert_eq!(parse_port("+22"), None);
        assert_eq!(parse_mode("0177"), Some(0o177));
        assert_eq!(parse_mode("1777"), None);
        assert_eq!(parse_mode("9"), None);
    }

    #[test]
    fn type_of_service() {
        assert_eq!(parse_ipqos("ef"), Some(0xb8));
        assert_eq!(parse_ipqos("CS1"), Some(0x20));
        assert_eq!(parse_ipqos("0x20"), Some(0x20));
        assert_eq!(parse_ipqos("256"), None);
        assert_eq!(parse_ipqos("0x"), None);
        assert_eq!(parse_ipqos("lowdelay"), Some(-1));
        assert_eq!(parse_ipqos("reliability"), Some(-1));
        assert_eq!(format_ipqos(-1), "none");
        assert_eq!(format_ipqos(0x10), "0x10");
        assert_eq!(format_ipqos(0x01), "0x01");
    }

    #[test]
    fn hosts_with_ports() {
        assert_eq!(split_host_port("[::1]:22"), Some(("::1", Some("22"))));
        assert_eq!(split_host_port("::1"), Some(("::1", None)));
        assert_eq!(split_host_port("h:22"), Some(("h", Some("22"))));
        assert_eq!(split_host_port("h/22"), Some(("h", Some("22"))));
        assert_eq!(split_host_port("[::1"), None);
        assert_eq!(split_host_port("[::1]x"), None);
    }
}
